// The dashboard: reads events, keeps what they say, and draws it while someone looks.
import {Charts} from './dashboard_charts.js';
import {byId, setText} from './dashboard_format.js';
import {describeRope, drawBackends, drawBlocks, drawLegend, drawQueues, drawTable, drawTiles,
  drawTimes} from './dashboard_panels.js';
import {RequestPanel} from './dashboard_request.js';
import {Rope} from './dashboard_rope.js';
import {RopeModel} from './dashboard_rope_model.js';
import {Store} from './dashboard_store.js';
import {storedKey, watch} from './events.js';

const PANELS_MS = 250;   // Numbers that change faster cannot be read.
const IDLE_SECONDS = 4;  // Without a request: says how to send one.

const store = new Store();
const model = new RopeModel();
const charts = new Charts();
const panel = new RequestPanel(() => rope.choose(0));
const rope = new Rope(model, openRequest);
let span = 'minute';
let paused = false;
let generation = store.generation;
let drawnAt = 0;
let pending = 0;
let busyAt = 0;

function openRequest(request) {
  panel.open(request, store);
  rope.choose(request.id);
}

function drawAll() {
  clearTimeout(pending);
  pending = 0;
  if (document.hidden || !store.frame) return;
  drawnAt = performance.now();
  drawTiles(store);
  drawTimes(store, span);
  drawBlocks(store);
  drawQueues(store);
  drawBackends(store);
  drawTable(store, openRequest);
  describeRope(store, model);
  rope.label(store);
  panel.draw(store);
  charts.draw(store);
  const idle = store.frame.at - busyAt > IDLE_SECONDS;
  byId('idle').hidden = !idle || paused;
  byId('ropeway-rows').inert = idle && !paused;  // They are behind it.
  const which = store.lastEnded > 0 ? 'a' : 'a first';
  setText(byId('idle-title'), `Nothing runs. Send ${which} request:`);
}

function drawSoon() {
  if (pending || document.hidden) return;
  pending = setTimeout(drawAll, Math.max(0, PANELS_MS - (performance.now() - drawnAt)));
}

const QUESTION = JSON.stringify({
  messages: [{role: 'user', content: 'What is a ropeway?'}], max_tokens: 100,
});

// The server's own address is this page's.
function sayHowToAsk() {
  const key = storedKey() ? `  -H 'Authorization: Bearer YOUR_API_KEY' \\\n` : '';
  setText(byId('idle-curl'), `curl ${location.origin}/v1/chat/completions \\\n${key}` +
      `  -H 'Content-Type: application/json' \\\n  -d '${QUESTION}'`);
}

function onHello(hello) {
  sayHowToAsk();
  store.setHello(hello);
  const [name] = hello.models;
  const more = hello.models.length > 1 ? ` and ${hello.models.length - 1} more` : '';
  setText(byId('server'), `${name || 'no model'}${more}${store.gateway ? ' · gateway' : ''}`);
  byId('server').title = `Ropeway ${hello.version}, ${hello.strategy}: ${hello.models.join(', ')}`;
  document.title = store.gateway ? 'Ropeway gateway' : 'Ropeway';
  byId('scale-auto').parentElement.hidden = store.gateway;
  byId('board').classList.toggle('is-gateway', store.gateway);
  drawLegend(store.gateway);
}

function onFrame(frame) {
  store.add(frame);
  byId('before').hidden = true;
  byId('board').hidden = false;
  if (store.generation !== generation) {
    generation = store.generation;
    model.clear();
    rope.clear();
    if (panel.request) panel.close();  // It is of another process.
  }
  if (frame.requests.length > 0 || frame.steps.length > 0) busyAt = frame.at;
  model.add(store);
  charts.add(store);
  if (!paused) rope.ask();
  drawSoon();
}

const WORDS = {
  connecting: () => 'Connecting…',
  live: () => 'Live',
  key: () => 'Needs the admin key',
  'wrong-key': () => 'The key was refused',
  lost: ({text, seconds}) => `${text} Next try in ${seconds} s.`,
  busy: ({text, seconds}) => `${text} Next try in ${seconds} s.`,
};

function onState(state) {
  const status = byId('status');
  // A try that follows a loss keeps its sentence.
  if (state.kind === 'connecting' && status.dataset.state === 'lost') return;
  status.dataset.state = state.kind;
  setText(status, WORDS[state.kind](state));
  setText(byId('before'), status.textContent);
  byId('retry').hidden = state.kind !== 'lost' && state.kind !== 'busy';
  const asks = state.kind === 'key' || state.kind === 'wrong-key';
  if (asks !== !byId('key-form').hidden || state.kind === 'wrong-key') showKeyForm(asks, state);
  byId('board').classList.toggle('is-stale', state.kind !== 'live');
  byId('key-forget').hidden = asks || storedKey() === '';
}

function showKeyForm(asks, state) {
  byId('key-form').hidden = !asks;
  byId('board').hidden = asks || !store.frame;
  byId('before').hidden = asks || store.frame !== null;
  if (!asks) return;
  const wrong = state.kind === 'wrong-key';
  const message = byId('key-message');
  message.className = wrong ? 'is-wrong' : '';
  setText(message, wrong ? `That is not this server's admin key. ${state.text}`.trim() :
      'This server has keys. Its admin key shows what it does.');
  const input = byId('key-input');
  input.value = '';
  input.setAttribute('aria-invalid', String(wrong));
  input.focus();
}

function press(chosen, other) {
  chosen.setAttribute('aria-pressed', 'true');
  other.setAttribute('aria-pressed', 'false');
}

function connectControls(events) {
  byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    events.setKey(byId('key-input').value);
  });
  byId('key-forget').addEventListener('click', () => events.forgetKey());
  byId('retry').addEventListener('click', () => events.retry());
  for (const name of ['minute', 'hour']) {
    byId(`window-${name}`).addEventListener('click', () => {
      span = name;
      press(byId(`window-${name}`), byId(`window-${name === 'hour' ? 'minute' : 'hour'}`));
      drawAll();
    });
  }
  byId('scale-auto').addEventListener('click', () => {
    model.follow = true;
    press(byId('scale-auto'), byId('scale-one'));
  });
  byId('scale-one').addEventListener('click', () => {
    model.follow = false;
    press(byId('scale-one'), byId('scale-auto'));
  });
  byId('pause').addEventListener('click', () => {
    paused = !paused;
    byId('pause').setAttribute('aria-pressed', String(paused));
    setText(byId('pause'), paused ? 'Go on' : 'Pause');
    rope.setPaused(paused);
    drawAll();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) return;
    rope.ask();
    drawAll();
  });
}

drawLegend(false);
connectControls(watch({onHello, onFrame, onState}));
