// The picture of the ropeway, on a canvas.
import {colours, count, sharpContext} from './dashboard_format.js';

export const AXIS = 46;  // Height of the step times and the seconds.
const BOTTOM = 10;       // Between the newest column and the edge.
const NAMES = [
  'card', 'sunk', 'line', 'ink', 'muted', 'prefill', 'decode', 'preempted', 'waiting', 'fetching',
  'finished', 'high', 'medium', 'low', 'good', 'accent', 'accent-soft', 'bad',
  'backend-0', 'backend-1', 'backend-2', 'backend-3', 'backend-4', 'backend-5',
];

export class RopePicture {
  constructor(canvas) {
    this.canvas = canvas;
    this.chosen = 0;  // The request whose row is marked.
    this.readColours();
  }

  readColours() {
    this.colours = colours(NAMES);
  }

  // `size`: view (what the model has), row and column (their sizes), rows (how many), wide, high;
  // at: the column at the right edge, which may be between two.
  draw(size) {
    const {view, row, rows, wide, high, at, column: step} = size;
    const context = sharpContext(this.canvas, wide, high);
    const colour = this.colours;
    context.fillStyle = colour.sunk;
    context.fillRect(0, 0, wide, high);
    const xOf = (number) => wide - BOTTOM - (at - number + 1) * step;
    this.xOf = xOf;
    this.lanes = new Map();
    for (const riders of view.lanes) {
      for (const rider of riders) this.lanes.set(rider.request.id, rider.lane);
    }
    this.drawRows(context, size);
    // Where requests begin and end, in the colour of their class.
    for (const riders of view.lanes) {
      for (const rider of riders) this.drawRide(context, rider, size);
    }
    const runs = new Map();
    this.marksAt = new Map();
    for (const column of view.columns) {
      const x = xOf(column.number);
      if (x < -step || x > wide) continue;
      this.drawColumn(context, column, x, size, runs);
    }
    this.drawRuns(context, runs, size);
    this.drawAxis(context, size);
    for (const riders of view.lanes) {
      for (const rider of riders) this.drawEnd(context, rider, size);
    }
    context.fillStyle = colour.accent;
    context.fillRect(wide - 2, 0, 2, row * rows);
  }

  drawRows(context, {view, row, rows, wide}) {
    const colour = this.colours;
    for (let lane = 0; lane < rows; ++lane) {
      const y = lane * row;
      const riders = view.lanes[lane];
      const last = riders && riders[riders.length - 1];
      if (last && last.request.id === this.chosen) {
        context.fillStyle = colour['accent-soft'];
        context.fillRect(0, y, wide, row);
      }
      context.fillStyle = colour.line;
      context.fillRect(0, y + row - 1, wide, 1);
    }
  }

  // The line on which a request hangs, from its first column to its last one.
  drawRide(context, rider, {row, wide, column: step, view}) {
    const from = Math.max(this.xOf(rider.from), 0);
    const to = this.xOf(rider.end || view.head) + step - 1;
    if (to < 0 || to < from) return;
    const thick = row >= 14 ? 3 : 2;
    context.fillStyle = this.colours[rider.request.class] || this.colours.medium;
    context.fillRect(from, (rider.lane + 1) * row - thick, Math.min(to, wide) - from, thick);
  }

  drawColumn(context, column, x, {row, rows, column: step}, runs) {
    const colour = this.colours;
    if (column.pause) {
      context.fillStyle = colour.line;
      for (let y = 2; y < row * rows; y += 6) context.fillRect(x + step / 2, y, 1, 3);
      return;
    }
    const cell = step > 4 ? step - 1 : step;
    const body = bodyOf(row);
    for (const [id, {prefill, decode, colour: its}] of column.cells) {
      const lane = this.lanes.get(id);
      if (lane === undefined) continue;
      const bottom = (lane + 1) * row - (row >= 14 ? 4 : 2);
      let high = Math.max(3, body * 0.42);
      if (prefill > 0) {
        high = body * (0.3 + 0.7 * Math.min(1, Math.log2(1 + prefill) / 9));
        addRun(runs, id, column, lane, x, prefill);
      }
      context.fillStyle = prefill > 0 ? colour.prefill : colour[its];
      context.fillRect(x, bottom - high, cell, high);
      if (prefill > 0 && decode > 0) {
        context.fillStyle = colour.decode;
        context.fillRect(x + cell / 2, bottom - body * 0.42, cell / 2, body * 0.42);
      }
    }
    for (const [id, line] of column.lines) {
      const lane = this.lanes.get(id);
      if (lane === undefined || column.cells.has(id)) continue;
      const bottom = (lane + 1) * row - (row >= 14 ? 4 : 2);
      this.drawLine(context, line, x, bottom, body, cell);
    }
    for (const [id, mark] of column.marks) {
      const lane = this.lanes.get(id);
      if (lane === undefined) continue;
      // A column of several steps may have both.
      const aside = {preempted: -3, resumed: 3, moved: 0}[mark];
      this.drawMark(context, mark, x + cell / 2 + aside, lane * row, row);
      if (!this.marksAt.has(lane)) this.marksAt.set(lane, []);
      this.marksAt.get(lane).push(x + cell / 2);
    }
  }

  drawLine(context, line, x, bottom, body, cell) {
    const colour = this.colours;
    const middle = bottom - body * 0.32;
    if (line === 'preempted') {
      // Slanted, so that not only the colour tells it.
      context.strokeStyle = colour.preempted;
      context.lineWidth = 1.6;
      context.beginPath();
      context.moveTo(x, bottom - 1);
      context.lineTo(x + cell, bottom - body * 0.55);
      context.stroke();
    } else if (line === 'fetching') {
      context.fillStyle = colour.fetching;
      context.fillRect(x, bottom - body * 0.6, cell, body * 0.6);
    } else if (line === 'waiting') {
      context.fillStyle = colour.waiting;
      context.fillRect(x + 1, middle, Math.max(2, cell - 3), 2);
    } else {
      context.fillStyle = colour.decode;
      context.fillRect(x, bottom - 1, cell, 1);
    }
  }

  drawMark(context, mark, x, y, row) {
    const colour = this.colours;
    const half = row >= 14 ? 5 : 3;
    context.beginPath();
    if (mark === 'preempted') {
      context.fillStyle = colour.preempted;
      context.moveTo(x - half, y + 1);
      context.lineTo(x + half, y + 1);
      context.lineTo(x, y + 1 + half * 1.6);
    } else if (mark === 'resumed') {
      context.fillStyle = colour.good;
      context.moveTo(x - half, y + 1 + half * 1.6);
      context.lineTo(x + half, y + 1 + half * 1.6);
      context.lineTo(x, y + 1);
    } else {
      context.fillStyle = colour.ink;
      context.moveTo(x, y + 1);
      context.lineTo(x + half, y + 1 + half);
      context.lineTo(x, y + 1 + 2 * half);
      context.lineTo(x - half, y + 1 + half);
    }
    context.closePath();
    context.fill();
  }

  // The tokens of chunks that follow each other, where there is room to write them.
  drawRuns(context, runs, {row, wide: most, column: step}) {
    if (row < 18) return;
    context.font = '600 10px system-ui, sans-serif';
    context.textBaseline = 'top';
    context.textAlign = 'left';
    context.fillStyle = this.colours.muted;
    for (const {lane, from, to, tokens} of runs.values()) {
      const text = count(tokens);
      const wide = context.measureText(text).width;
      const marks = this.marksAt.get(lane) || [];
      // Beside a mark at its beginning; nothing where another mark would be hidden.
      const at = marks.some((x) => x >= from - 6 && x < from + step) ?
          from + step + 3 : Math.min(from, most - wide - 4);
      if (marks.some((x) => x > at - 6 && x < at + wide + 6)) continue;
      if (runsAfter(runs, lane, to).some((x) => x < at + wide + 2)) continue;
      context.fillText(text, at, lane * row + 1);
    }
  }

  drawEnd(context, rider, {row, column: step}) {
    if (rider.end === 0) return;
    const x = this.xOf(rider.end) + step;
    if (x < -6) return;
    const y = (rider.lane + 1) * row - (row >= 14 ? 9 : 5);
    const size = row >= 14 ? 4 : 2.5;
    const {ended} = rider.request;
    const good = ended && (ended.reason === 'stop' || ended.reason === 'length');
    context.beginPath();
    if (good) {
      context.fillStyle = this.colours.finished;
      context.arc(x + size, y, size, 0, 2 * Math.PI);
      context.fill();
    } else {
      context.strokeStyle = this.colours.bad;
      context.lineWidth = 2;
      context.moveTo(x, y - size);
      context.lineTo(x + 2 * size, y + size);
      context.moveTo(x, y + size);
      context.lineTo(x + 2 * size, y - size);
      context.stroke();
    }
  }

  // Bars of the steps' times, and a mark for each second.
  drawAxis(context, {view, row, rows, wide, column: step}) {
    const colour = this.colours;
    const top = row * rows;
    const {columns} = view;
    const high = AXIS - 18;
    context.fillStyle = colour.card;
    context.fillRect(0, top, wide, AXIS);
    let most = 1;
    for (const column of columns) {
      if (this.xOf(column.number) >= 0) most = Math.max(most, column.ms);
    }
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'alphabetic';
    context.textAlign = 'center';
    const now = columns.length > 0 ? Math.floor(columns[columns.length - 1].at) : 0;
    let second = -1;
    let free = wide - 50;
    for (let i = columns.length - 1; i >= 0; --i) {
      const column = columns[i];
      const x = this.xOf(column.number);
      if (x < -step) break;
      if (column.ms > 0) {
        const bar = Math.max(1, (column.ms / most) * (high - 4));
        context.fillStyle = colour.waiting;
        context.fillRect(x, top + high - bar, step - 1, bar);
      }
      const its = Math.floor(column.at);
      if (second >= 0 && its !== second) {
        context.fillStyle = colour.line;
        context.fillRect(x + step, 0, 1, top + high + 3);
        if (x < free) {
          context.fillStyle = colour.muted;
          context.fillText(`−${now - its} s`, x + step, top + AXIS - 4);
          free = x - 44;
        }
      }
      second = its;
    }
    context.textAlign = 'right';
    context.fillStyle = colour.muted;
    context.fillText('now', wide - 2, top + AXIS - 4);
  }
}

// The height of the largest chunk: above it there is room for its tokens, or a mark.
function bodyOf(row) {
  if (row >= 24) return row - 15;
  return row - (row >= 14 ? 8 : 4);
}

// Where the next chunks of a lane begin.
function runsAfter(runs, lane, x) {
  const found = [];
  for (const run of runs.values()) {
    if (run.lane === lane && run.from > x) found.push(run.from);
  }
  return found;
}

function addRun(runs, id, column, lane, x, tokens) {
  const key = `${id} ${lane}`;
  const run = runs.get(key);
  if (run && column.number === run.number + 1) {
    run.to = x;
    run.number = column.number;
    run.tokens += tokens;
    return;
  }
  // A run that was interrupted keeps its own entry.
  if (run) runs.set(`${key} ${run.number}`, run);
  runs.set(key, {lane, from: x, to: x, number: column.number, tokens});
}
