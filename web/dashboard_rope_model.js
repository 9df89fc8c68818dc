// The ropeway's content: columns of steps, and which request has which row ("lane").

const MOST_COLUMNS = 400;
const MOST_LANES = 72;
const QUEUE_HEAD = 5;        // Waiting requests that are shown.
const REST_AFTER_END = 6;    // Columns between two requests of one lane.
const PAUSE_SECONDS = 0.5;   // Without a step: a mark between the columns.
const FOLLOWED_PER_SECOND = 22;  // Columns that eyes can follow.

export class RopeModel {
  constructor() {
    this.follow = true;  // Several steps become a column where they are fast.
    this.clear();
  }

  clear() {
    this.columns = [];
    this.head = 0;       // The number of the newest column, counted from 1.
    this.lanes = [];     // Of each lane its riders, the newest last.
    this.riders = new Map();  // By request id, those that have not ended.
    this.scale = 1;
    this.scaleSet = 0;
    this.speed = 0;      // Steps a second.
    this.ticks = 0;
    this.hidden = 0;     // Waiting requests without a lane.
  }

  add(store) {
    const {frame} = store;
    this.chooseScale(store);
    this.giveLanes(store);
    if (store.gateway && store.newSteps.length === 0) {
      // A gateway has no steps: a column is a tenth of a second.
      if (frame.requests.length > 0 || frame.ended.length > 0) this.addStep(tick(store), store);
    } else {
      for (const step of store.newSteps) this.addStep(step, store);
    }
    this.endRiders(store);
  }

  chooseScale(store) {
    const {frame} = store;
    const steps = store.newSteps;
    if (steps.length > 1) {
      const span = frame.at - steps[0].at;
      if (span > 0) this.speed += (steps.length / span - this.speed) * 0.1;
    }
    if (!this.follow) {
      this.scale = 1;
    } else if (frame.at - this.scaleSet > 3) {
      let wanted = 1;
      while (wanted < 16 && this.speed / wanted > FOLLOWED_PER_SECOND * 1.3) wanted *= 2;
      // Not to and fro at a limit.
      const near = this.speed / this.scale;
      if (wanted > this.scale || near < FOLLOWED_PER_SECOND * 0.5) {
        if (wanted !== this.scale) this.scaleSet = frame.at;
        this.scale = wanted;
      }
    }
  }

  addStep(step, store) {
    const last = this.columns[this.columns.length - 1];
    const idle = last && !store.gateway ? step.at - last.until : 0;
    if (last && idle > PAUSE_SECONDS && !last.pause) this.addColumn({pause: idle, at: last.until});
    let column = this.columns[this.columns.length - 1];
    if (!column || column.pause || column.steps >= this.scale) {
      column = this.addColumn({at: step.at});
    }
    ++column.steps;
    column.step = step.step;
    column.until = step.at + step.ms / 1000;
    column.ms = Math.max(column.ms, step.ms);
    for (const [id, kind, , tokens] of step.rows) {
      let cell = column.cells.get(id);
      if (!cell) column.cells.set(id, cell = {prefill: 0, decode: 0, colour: 'decode'});
      if (kind === 0) {
        cell.prefill += tokens;
      } else {
        cell.decode += tokens;
        if (step.colours) cell.colour = step.colours.get(id);
      }
      column.tokens += tokens;
      const rider = this.riders.get(id);
      if (!rider) continue;
      rider.last = column.number;
      rider.began = true;
      rider.preempted = false;
    }
    for (const id of step.preempted) {
      column.marks.push([id, 'preempted']);
      const rider = this.riders.get(id);
      if (rider) rider.preempted = true;
    }
    for (const id of step.resumed) column.marks.push([id, 'resumed']);
    for (const id of step.moved || []) column.marks.push([id, 'moved']);
    const fetching = new Set(step.fetching);
    for (const [id, rider] of this.riders) {
      if (column.cells.has(id)) continue;
      const line = lineOf(rider, step, fetching.has(id), store.gateway);
      if (line) column.lines.set(id, line);
    }
  }

  addColumn(part) {
    const column = {
      number: ++this.head, steps: 0, step: 0, ms: 0, tokens: 0, until: part.at, pause: 0,
      cells: new Map(), lines: new Map(), marks: [], ...part,
    };
    this.columns.push(column);
    if (this.columns.length > MOST_COLUMNS) this.columns.shift();
    return column;
  }

  // Rows for what runs and for the head of the queue. A request keeps its row.
  giveLanes(store) {
    this.hidden = 0;
    let waiting = 0;
    const first = new Set(store.newSteps.flatMap((step) => step.started));
    for (const request of store.active()) {
      const queued = request.state === 'waiting' || request.state === 'encoding';
      const rider = this.riders.get(request.id);
      if (rider) {
        // Others came before it: a row is for the head of the queue.
        if (queued && ++waiting > 2 * QUEUE_HEAD && !rider.began) {
          this.drop(rider);
          ++this.hidden;
        }
        continue;
      }
      if (queued && ++waiting > QUEUE_HEAD) {
        ++this.hidden;
        continue;
      }
      if (!this.ride(request, first)) ++this.hidden;
    }
    // Those that came and ended between two frames.
    for (const step of store.newSteps) {
      for (const id of step.started) {
        const request = store.requests.get(id);
        if (request && !this.riders.has(id)) this.ride(request, first);
      }
    }
  }

  ride(request, first) {
    let lane = this.lanes.findIndex((riders) => {
      const last = riders[riders.length - 1];
      return !last || (last.end > 0 && last.end + REST_AFTER_END <= this.head);
    });
    if (lane < 0) {
      if (this.lanes.length >= MOST_LANES) return false;
      lane = this.lanes.push([]) - 1;
    }
    const rider = {
      request, lane, from: this.head + 1, last: this.head, end: 0,
      began: request.lastRow > 0 && !first.has(request.id),
      preempted: request.state === 'preempted',
    };
    this.lanes[lane].push(rider);
    this.riders.set(request.id, rider);
    return true;
  }

  drop(rider) {
    this.riders.delete(rider.request.id);
    const riders = this.lanes[rider.lane];
    riders.splice(riders.indexOf(rider), 1);
  }

  endRiders(store) {
    for (const [id, rider] of this.riders) {
      const {request} = rider;
      if (!request.ended && request.phase !== 'gone') continue;
      rider.end = Math.max(rider.last, rider.from, 1);
      this.riders.delete(id);
    }
    const oldest = this.columns.length > 0 ? this.columns[0].number : 0;
    for (const riders of this.lanes) {
      while (riders.length > 0 && riders[0].end > 0 && riders[0].end < oldest) riders.shift();
    }
    // Empty rows at the end are no rows.
    while (this.lanes.length > 0) {
      const last = this.lanes[this.lanes.length - 1];
      if (last.length > 0) break;
      this.lanes.pop();
    }
    if (store.frame.requests.length === 0 && this.columns.length === 0) this.lanes = [];
  }

  // What a paused view goes on to show.
  snapshot() {
    return {
      columns: this.columns.slice(), head: this.head, lanes: this.lanes.map((lane) => lane.slice()),
    };
  }
}

// What a request without tokens in a step does. Its state is that of the frame, which is later
// than most of the frame's steps; so the rows seen before tell it.
function lineOf(rider, step, fetches, gateway) {
  const {request} = rider;
  if (gateway) return request.phase === 'encoding' ? 'waiting' : request.phase;
  if (request.ended && step.step > request.lastRow) return '';
  if (fetches) return 'fetching';
  if (rider.preempted) return 'preempted';
  return rider.began ? 'rest' : 'waiting';
}

function tick(store) {
  const {frame} = store;
  const rows = [];
  const moved = [];
  const resumed = [];
  const preempted = [];
  const colours = new Map();
  for (const seen of frame.requests) {
    const request = store.requests.get(seen.id);
    if (!request) continue;
    if (seen.state === 'running') {
      rows.push([seen.id, 1, 0, 1]);
      colours.set(seen.id, store.backendColour(request.backend));
    }
    if (request.movedAt === frame.at) moved.push(seen.id);
    else if (request.resumedAt === frame.at) resumed.push(seen.id);
    if (request.preemptedAt === frame.at) preempted.push(seen.id);
  }
  return {step: 0, at: frame.at, ms: 0, rows, colours, moved, resumed, preempted, fetching: []};
}
