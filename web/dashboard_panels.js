// The panels around the ropeway: tiles, table, blocks, queues, times, backends.
import {byId, colours, count, countOf, keep, make, percent, rate, seconds, setText,
  sharpContext, tenantName, time, timeParts} from './dashboard_format.js';
import {blockedWords} from './dashboard_why.js';

const TABLE_ENDED = 12;  // Ended requests in the table.
const MOST_CELLS = 240;  // Of the map of KV blocks.
const DISK_ROWS = 3;
const DISK_GAP = 8;
const MAP_HIGH = 150;    // About its height in pixels.

function tile(parent, {name, value, unit, bad}) {
  if (!parent.firstChild) {
    parent.append(make('div', 'tile-name'),
        make('div', 'tile-value', make('span', ''), make('span', 'tile-unit')));
  }
  setText(parent.children[0], name);
  setText(parent.children[1].children[0], value);
  setText(parent.children[1].children[1], unit);
  parent.className = bad ? 'tile is-bad' : 'tile';
}

export function drawTiles(store) {
  const {frame, hello} = store;
  const {minute, queue} = frame;
  const rates = store.rates();
  const slots = hello.slots > 0 ? `of ${count(hello.slots)}` : '';
  let running = 0;
  let waiting = 0;
  for (const one of Object.values(queue.classes)) {
    running += one.running;
    waiting += one.waiting;
  }
  const timeTile = (name, times) => {
    const [value, unit] = times.count > 0 ? timeParts(times.p50) : ['–', ''];
    return {name, value, unit: unit && `${unit} median`};
  };
  const tiles = [
    {name: 'Output', value: rate(rates.output), unit: 'tokens/s'},
    {name: 'Prompts', value: rate(rates.prompt), unit: 'tokens/s'},
    {name: 'Running', value: count(running), unit: slots},
    {name: 'Waiting', value: count(waiting), unit: ''},
    timeTile('First token', minute.ttft_ms),
    timeTile('Between tokens', minute.itl_ms),
  ];
  if (store.gateway) {
    const backends = frame.backends || [];
    const up = backends.filter((one) => one.state === 'up').length;
    tiles.push({name: 'Backends up', value: count(up), unit: `of ${count(backends.length)}`,
      bad: up === 0});
  } else {
    tiles.push({name: 'Utilisation', value: percent(rates.busy).replace(' %', ''), unit: '%'});
  }
  keep(byId('rates'), tiles, (one) => one.name, () => make('div', 'tile'), tile);
}

// The twin of the canvas.
export function drawTable(store, onChoose) {
  const table = byId('batch-table');
  const rows = [...store.active(), ...store.recentlyEnded(TABLE_ENDED)];
  table.classList.toggle('has-backends', store.gateway);
  for (const cell of table.querySelectorAll('.backend-column')) cell.hidden = !store.gateway;
  keep(table.tBodies[0], rows, (request) => request.id, (request) => {
    const button = make('button', 'link', `${request.id}`);
    button.type = 'button';
    button.addEventListener('click', () => onChoose(store.requests.get(request.id) || request));
    const head = make('th', '', button);
    head.scope = 'row';
    const row = make('tr', '', head);
    for (let i = 0; i < 8; ++i) row.append(make('td', i > 3 ? 'number' : ''));
    row.children[4].classList.add('backend-column');
    return row;
  }, (row, request) => {
    const age = (request.ended ? request.ended.at : store.frame.at) - request.came;
    const state = store.stateWords(request);
    const place = request.phase === 'waiting' && request.position !== null ?
        `, ${request.position} ahead` : '';
    const texts = [
      request.class, tenantName(request.tenant), state + place, request.backend,
      count(request.prompt), count(request.output), count(request.preemptions), seconds(age),
    ];
    texts.forEach((text, i) => setText(row.children[i + 1], text));
    row.children[4].hidden = !store.gateway;
  });
}

// In words, for those who cannot see the canvas.
export function describeRope(store, {hidden, scale}) {
  const {queue} = store.frame;
  let running = 0;
  let waiting = 0;
  let preempted = 0;
  for (const request of store.frame.requests) {
    if (request.state === 'running') ++running;
    else if (request.state === 'preempted') ++preempted;
    else ++waiting;
  }
  const words = `The running batch: ${countOf(running, 'request')} running, ` +
      `${waiting} waiting, ${preempted} preempted. The table below says the same.`;
  const canvas = byId('ropeway');
  if (canvas.getAttribute('aria-label') !== words) canvas.setAttribute('aria-label', words);
  setText(byId('rope-title'), store.gateway ? 'Requests under way' : 'The running batch');
  const all = Object.values(queue.classes).reduce((sum, one) => sum + one.waiting, 0);
  const more = hidden > 0 ? ` ${count(hidden)} of ${count(all)} waiting requests ` +
      `${hidden === 1 ? 'has' : 'have'} no row yet.` : '';
  let column = scale > 1 ? `${scale} steps of the engine` : 'a step of the engine';
  if (store.gateway) column = 'a tenth of a second';
  setText(byId('rope-text'), `Each row is a request, each column ${column}. ` +
      `New ones come in at the right.${more}`);
}

export function drawLegend(gateway) {
  const entries = gateway ? [
    ['waiting', 'waiting'], ['', 'At a backend: in its colour, as below.'],
    ['preempted', 'waits for another backend'], ['ink', 'changed its backend ◆'],
    ['finished', 'finished ●'],
  ] : [
    ['waiting', 'waiting'], ['prefill', 'prompt, chunk by chunk (higher: more tokens)'],
    ['decode', 'answer, token by token'], ['preempted', 'preempted ▼'], ['good', 'resumed ▲'],
    ['fetching', 'fetching from disk'], ['finished', 'finished ●'],
  ];
  const classes = [
    ['', 'Line below, the class:'], ['high', 'high'], ['medium', 'medium'], ['low', 'low'],
  ];
  keep(byId('legend'), [...entries, ...classes], ([colour, text]) => colour + text,
      ([colour, text]) => {
        if (!colour) return make('li', 'legend-break', text);
        const swatch = make('span', 'swatch');
        swatch.style.background = `var(--${colour})`;
        if (classes.some(([name]) => name === colour)) swatch.style.height = '4px';
        return make('li', '', swatch, text);
      }, () => {});
}

export function drawBlocks({frame}) {
  const {free, held, cached, disk} = frame.blocks;
  const total = free + held + cached;
  byId('blocks').hidden = total === 0 && disk === 0;
  if (total === 0) return;
  const canvas = byId('blocks-map');
  const wide = Math.max(120, byId('blocks').clientWidth - 32);
  const perCell = Math.max(1, Math.ceil(total / MOST_CELLS));
  const cells = Math.ceil(total / perCell);
  // Cells as large as the panel has room for.
  const side = Math.max(8, Math.min(34, Math.floor(Math.sqrt((wide * MAP_HIGH) / cells))));
  const columns = Math.max(1, Math.floor(wide / side));
  const rows = Math.ceil(cells / columns);
  // The disk's have their own rows, of which there may be many more.
  const onDisk = Math.min(Math.ceil(disk / perCell), DISK_ROWS * columns);
  const below = rows * side + DISK_GAP;
  const high = onDisk > 0 ? below + Math.ceil(onDisk / columns) * side : rows * side;
  const context = sharpContext(canvas, wide, high);
  const colour = colours(['held', 'cached', 'free', 'disk']);
  context.clearRect(0, 0, wide, high);
  for (let i = 0; i < cells; ++i) {
    // The part of the pool that this cell stands for, from its middle.
    const at = Math.min(total - 0.5, (i + 0.5) * perCell);
    context.fillStyle = at < held ? colour.held : at < held + cached ? colour.cached : colour.free;
    const x = (i % columns) * side;
    const y = Math.floor(i / columns) * side;
    context.fillRect(x, y, side - 2, side - 2);
  }
  context.fillStyle = colour.disk;
  for (let i = 0; i < onDisk; ++i) {
    const y = below + Math.floor(i / columns) * side;
    context.fillRect((i % columns) * side, y, side - 2, side - 2);
  }
  const left = Math.ceil(disk / perCell) - onDisk;
  const more = left > 0 ? `, and ${count(left * perCell)} more on disk than it shows` : '';
  const words = `${percent(held / total)} held, ${percent(cached / total)} cached, ` +
      `${percent(free / total)} free of ${countOf(total, 'block')}, and ${count(disk)} on disk`;
  canvas.setAttribute('aria-label', `KV blocks: ${words}`);
  setText(byId('blocks-text'),
      `${countOf(total, 'block')}; a cell is ${countOf(perCell, 'block')}${more}`);
  const entries = [
    ['held', 'held by requests', held], ['cached', 'cached', cached], ['free', 'free', free],
    ['disk', 'on disk', disk],
  ];
  keep(byId('blocks-legend'), entries, ([name]) => name, ([name, text]) => {
    const swatch = make('span', 'swatch');
    swatch.style.background = `var(--${name})`;
    return make('li', '', swatch, make('b', ''), text);
  }, (item, [, , value]) => setText(item.children[1], count(value)));
}

export function drawQueues(store) {
  const {queue} = store.frame;
  const why = queue.blocked_by === null ? 'Nothing waits for its turn.' :
      `The first of the queue waits: ${blockedWords(queue.blocked_by, store.hello)}.`;
  setText(byId('queues-text'), why);
  const rows = [];
  for (const name of ['high', 'medium', 'low']) {
    rows.push({key: `class ${name}`, name, chip: name, ...queue.classes[name]});
  }
  const tenants = queue.tenants.filter((tenant) => tenant.name !== '' || queue.tenants.length > 1);
  if (tenants.length > 0) rows.push({key: 'tenants', title: 'By tenant'});
  for (const tenant of tenants.slice(0, 8)) {
    rows.push({key: `tenant ${tenant.name}`, ...tenant, name: tenantName(tenant.name)});
  }
  const left = queue.tenants_left_out + Math.max(0, tenants.length - 8);
  if (left > 0) rows.push({key: 'left', title: `and ${countOf(left, 'more tenant')}`});
  const most = Math.max(1, store.hello.slots, ...rows.map((row) =>
    (row.running || 0) + (row.waiting || 0)));
  keep(byId('queues-body'), rows, (row) => row.key, (row) => {
    if (row.title) return make('h3', '');
    const name = row.chip ? make('span', `chip class-${row.chip}`) : make('span', '');
    return make('div', 'queue-row', make('span', 'name', name),
        make('span', 'bar', make('span', 'is-running'), make('span', 'is-waiting')),
        make('span', 'words'));
  }, (element, row) => {
    if (row.title) {
      setText(element, row.title);
      return;
    }
    const [name, bar, words] = element.children;
    setText(name.firstChild, row.name);
    bar.children[0].style.width = `${(100 * row.running) / most}%`;
    bar.children[1].style.width = `${(100 * row.waiting) / most}%`;
    const wait = row.wait > 0.05 ? `; a new one waits about ${seconds(row.wait)}` : '';
    setText(words, `${row.running} running, ${row.waiting} waiting${wait}`);
  });
}

const TIMES = [
  ['ttft_ms', 'First token', 'TTFT'], ['itl_ms', 'Between tokens', 'ITL'],
  ['e2e_ms', 'Whole request', 'E2E'], ['step_ms', 'Step', ''],
];

export function drawTimes({frame, gateway}, span) {
  const window = frame[span];
  // A gateway has no steps.
  const shown = gateway ? TIMES.slice(0, 3) : TIMES;
  keep(byId('latency-body'), shown, ([field]) => field, ([, name, short]) => {
    const head = make('th', '', name, make('span', 'unit', short ? ` ${short}` : ''));
    head.scope = 'row';
    const row = make('tr', '', head);
    for (let i = 0; i < 3; ++i) {
      row.append(make('td', 'number', make('span', ''), ' ', make('span', 'unit')));
    }
    return row;
  }, (row, [field]) => {
    const times = window[field];
    ['p50', 'p95', 'p99'].forEach((name, i) => {
      const [value, unit] = times.count > 0 ? timeParts(times[name]) : ['–', ''];
      setText(row.children[i + 1].children[0], value);
      setText(row.children[i + 1].children[1], unit);
    });
    row.title = countOf(times.count, 'measurement');
  });
  const late = byId('late');
  late.className = window.late > 0 ? 'late is-bad' : 'late';
  setText(late, window.late > 0 ?
      `${count(window.late)} late: beyond the limit of their class` :
      'None was late: all kept the limits of their class.');
}

export function drawBackends(store) {
  const {frame, gateway} = store;
  const backends = frame.backends || [];
  byId('backends').hidden = !gateway;
  if (!gateway) return;
  keep(byId('backend-cards'), backends, (one) => `${one.model}\n${one.name}`, () =>
    make('li', 'backend',
        make('div', 'backend-name', make('span', 'swatch'), make('span', 'name'),
            make('span', 'tag')),
        make('p', 'backend-reason'), make('span', 'bar', make('span', 'is-running')),
        make('dl', 'pairs')),
  (card, one) => {
    card.dataset.state = one.state;
    const [name, reason, bar, pairs] = card.children;
    const colour = `var(--${store.backendColour(one.name)})`;
    name.children[0].style.background = colour;
    setText(name.children[1], one.name);
    setText(name.children[2], one.state.replace('_', ' '));
    setText(reason, one.reason || one.model);
    const {limit} = one.concurrency;
    bar.children[0].style.background = colour;
    bar.children[0].style.width = `${Math.min(100, (100 * one.in_flight) / Math.max(1, limit))}%`;
    const {p50, p99} = one.latency_ms;
    const entries = [
      ['In flight', `${one.in_flight} of ${limit}`],
      ['Completed', count(one.completed)],
      ['Time p50', p50 === null ? '–' : time(p50)],
      ['p99', p99 === null ? '–' : time(p99)],
      ['Retries', count(one.retries)],
      ['Resumptions', count(one.resumptions)],
    ];
    if (pairs.children.length !== 2 * entries.length) {
      pairs.replaceChildren(...entries.flatMap(() => [make('dt', ''), make('dd', '')]));
    }
    entries.forEach(([term, text], i) => {
      setText(pairs.children[2 * i], term);
      setText(pairs.children[2 * i + 1], text);
    });
  });
}
