// Draws the ropeway, and keeps a button for each row.
import {byId, count, countOf, keep, make, setText, tenantName, time} from './dashboard_format.js';
import {AXIS, RopePicture} from './dashboard_rope_picture.js';

const FRAME_MS = 33;      // At most 30 pictures a second.
const LEAST_ROWS = 8;
const MOST_HIGH = 400;   // Of all rows, but for
const LEAST_ROW = 12;    // the least height of one.

export class Rope {
  constructor(model, onChoose) {
    this.model = model;
    this.onChoose = onChoose;
    this.box = byId('rope');
    this.canvas = byId('ropeway');
    this.picture = new RopePicture(this.canvas);
    this.rows = byId('ropeway-rows');
    this.frozen = null;
    this.at = 0;          // The column at the right edge, which glides to the newest.
    this.drawn = 0;
    this.waits = false;
    this.shownRows = LEAST_ROWS;
    this.still = matchMedia('(prefers-reduced-motion: reduce)');
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      this.picture.readColours();
      this.ask();
    });
    new ResizeObserver(() => this.ask()).observe(this.box);
    this.canvas.addEventListener('click', (event) => this.clicked(event));
    this.canvas.addEventListener('pointermove', (event) => this.pointed(event));
    this.canvas.addEventListener('pointerleave', () => setText(byId('readout'), '\u00a0'));
  }

  setPaused(paused) {
    this.frozen = paused ? this.model.snapshot() : null;
    this.ask();
  }

  clear() {
    this.at = 0;
    if (this.frozen) this.frozen = this.model.snapshot();
    this.ask();
  }

  choose(id) {
    this.picture.chosen = id;
    this.ask();
  }

  // Asks for a picture; a hidden tab gets none.
  ask() {
    if (this.waits || document.hidden) return;
    this.waits = true;
    requestAnimationFrame((now) => {
      this.waits = false;
      if (now - this.drawn < FRAME_MS - 4) {
        this.ask();
        return;
      }
      const passed = Math.min(now - this.drawn, 250);
      this.drawn = now;
      if (this.glide(passed)) this.ask();
      this.size = this.measure();
      this.picture.draw(this.size);
    });
  }

  // True while there is way to go.
  glide(passed) {
    const {head} = this.frozen || this.model;
    const way = head - this.at;
    if (this.still.matches || way < 0 || way > 60) {
      this.at = head;
      return false;
    }
    this.at += way * (1 - Math.exp(-passed / 90));
    if (head - this.at < 0.02) this.at = head;
    return this.at < head;
  }

  measure() {
    const view = this.frozen || this.model;
    const wide = this.box.clientWidth;
    const wanted = Math.max(LEAST_ROWS, view.lanes.length);
    // Rows come at once and go late, so that the picture does not jump.
    if (wanted >= this.shownRows) {
      this.shownRows = wanted;
      this.fullAt = this.drawn;
    } else if (this.drawn - this.fullAt > 10000) {
      this.shownRows = wanted;
    }
    const row = Math.max(LEAST_ROW, Math.min(34, Math.floor(MOST_HIGH / this.shownRows)));
    const labels = wide < 560 ? 112 : 172;
    return {
      view, row, labels, wide: Math.max(80, wide - labels), column: wide < 560 ? 6 : 8,
      high: row * this.shownRows + AXIS, rows: this.shownRows, at: this.at,
    };
  }

  // Buttons of the rows, at the side where new columns come in.
  label(store) {
    if (!this.size || document.hidden) return;
    const {view, row, labels, wide} = this.size;
    const style = this.rows.style;
    style.width = `${labels}px`;
    style.left = `${wide}px`;
    const shown = [];
    view.lanes.forEach((riders, lane) => {
      const last = riders[riders.length - 1];
      if (last) shown.push({lane, rider: last});
    });
    keep(this.rows, shown, (one) => one.lane, () => {
      const button = make('button', 'row-label', make('span', 'row-id'), make('span', 'chip'),
          make('span', 'row-note'));
      button.type = 'button';
      button.addEventListener('click', () => this.onChoose(button.request));
      return button;
    }, (button, {lane, rider}) => {
      const {request} = rider;
      button.request = request;
      button.style.top = `${lane * row}px`;
      button.style.height = `${row}px`;
      button.className = `row-label${request.ended ? ' is-over' : ''}` +
          `${row < 20 ? ' is-thin' : ''}${request.id === this.picture.chosen ? ' is-chosen' : ''}`;
      const [id, chip, note] = button.children;
      setText(id, `${request.id}`);
      setText(chip, request.class);
      chip.className = `chip class-${request.class}`;
      setText(note, rowNote(request, store));
      const says = `Request ${request.id}, class ${request.class}, tenant ` +
          `${tenantName(request.tenant)}, ${store.stateWords(request)}`;
      if (button.getAttribute('aria-label') !== says) button.setAttribute('aria-label', says);
    });
    style.height = `${row * this.size.rows}px`;
  }

  clicked(event) {
    const request = this.requestAt(event);
    if (request) this.onChoose(request);
  }

  requestAt(event) {
    if (!this.size) return null;
    const {view, row} = this.size;
    const riders = view.lanes[Math.floor(event.offsetY / row)];
    if (!riders || riders.length === 0) return null;
    for (const rider of riders) {
      const end = rider.end || view.head;
      const [left, right] = [this.picture.xOf(rider.from), this.picture.xOf(end + 2)];
      if (event.offsetX >= left && event.offsetX <= right) {
        return rider.request;
      }
    }
    return null;
  }

  pointed(event) {
    if (!this.size) return;
    const {view, column: step} = this.size;
    const column = view.columns.find((one) => {
      const x = this.picture.xOf(one.number);
      return event.offsetX >= x && event.offsetX < x + step;
    });
    const request = this.requestAt(event);
    this.canvas.style.cursor = request ? 'pointer' : 'default';
    const parts = [];
    if (column && column.pause) parts.push(`Nothing ran for ${time(column.pause * 1000)}`);
    if (column && column.step > 0) {
      parts.push(`Step ${count(column.step)}: ${time(column.ms)}, ` +
          `${countOf(column.cells.size, 'sequence')}, ${countOf(column.tokens, 'token')}`);
    }
    const cell = request && column && column.cells.get(request.id);
    if (request) {
      let what = `request ${request.id}, class ${request.class}`;
      if (cell && cell.prefill > 0) what += `, a chunk of ${count(cell.prefill)} prompt tokens`;
      parts.push(what);
    }
    setText(byId('readout'), parts.join(' · ') || '\u00a0');
  }
}

function rowNote(request, store) {
  if (request.ended) {
    return request.ended.reason === 'stop' || request.ended.reason === 'length' ?
        'finished' : request.ended.reason;
  }
  if (store.gateway && request.phase === 'preempted') return 'waits again';
  if (store.gateway && request.backend) return request.backend;
  if (request.phase === 'waiting' && request.position !== null) {
    return request.position === 0 ? 'next' : `${request.position} ahead`;
  }
  if (request.phase === 'encoding') return 'encoding';
  if (request.phase === 'preempted') return 'preempted';
  if (request.phase === 'fetching') return 'from disk';
  return request.tenant;
}
