// Tests the modules of the dashboard in node: what the page knows after another connection, how
// lists are kept, and what becomes of an event that cannot be shown.

import assert from 'node:assert/strict';
import test from 'node:test';

import {keep} from '../web/dashboard_format.js';
import {Store} from '../web/dashboard_store.js';
import {watch} from '../web/events.js';

const kHello = {kind: 'gateway', models: ['m'], slots: 0, strategy: '', version: '1',
  process: 'one'};

function ended(number, at) {
  return {number, id: number, tenant: '', class: 'medium', reason: 'stop', prompt: 1, cached: 0,
    output: 1, preemptions: 0, queue_ms: 0, prefill_ms: 0, decode_ms: 0, at};
}

function seen(id) {
  return {id, tenant: '', class: 'medium', state: 'running', age: 1, position: null, prompt: 5,
    backend: 'b'};
}

function frame(at, {requests = [], steps = [], ends = []}) {
  return {at, steps, requests, ended: ends, requests_left_out: 0, queue: {classes: {}}};
}

function step(number) {
  return {step: number, ago_ms: 0, ms: 1, preempted: [], fetching: [], rows: []};
}

// A store that has seen requests 1, 2 and 3 end.
function storeWithEnds(hello) {
  const store = new Store();
  store.setHello(hello);
  store.add(frame(100, {ends: [1, 2, 3].map((number) => ended(number, 90 + number))}));
  return store;
}

test('the requests of a server that was started again are shown', () => {
  const absent = {...kHello, process: undefined};
  for (const [before, after] of [[kHello, {...kHello, process: 'two'}], [absent, {...absent}]]) {
    const store = storeWithEnds(before);
    store.setHello(after);
    store.add(frame(200, {requests: [1, 2, 3].map(seen)}));
    assert.deepEqual(store.active().map((request) => request.id), [1, 2, 3]);
    assert.deepEqual(store.recentlyEnded(9), []);
    store.add(frame(201, {ends: [ended(1, 201)]}));
    assert.deepEqual(store.recentlyEnded(9).map((request) => request.id), [1]);
  }
});

test('another connection to the same process keeps what is known', () => {
  const store = storeWithEnds({...kHello, kind: 'engine'});
  const {generation} = store;
  store.add(frame(101, {steps: [step(7), step(8)], requests: [seen(4)]}));
  store.setHello({...kHello, kind: 'engine'});
  // The first frame tells old steps and ends again.
  store.add(frame(102, {steps: [step(8), step(9)], requests: [seen(4)],
    ends: [1, 2, 3].map((number) => ended(number, 90 + number))}));
  store.add(frame(103, {steps: [step(2), step(10)], requests: [seen(4)]}));
  assert.equal(store.generation, generation);
  assert.equal(store.recentlyEnded(9).length, 3);
  assert.equal(store.active()[0].came, 100);
  assert.deepEqual(store.newSteps.map((one) => one.step), [10]);
});

test('without a process in hello, steps and ends that begin anew tell of another one', () => {
  const store = storeWithEnds({...kHello, process: undefined});
  const {generation} = store;
  store.add(frame(102, {ends: [ended(1, 102)]}));
  assert.equal(store.generation, generation + 1);
  assert.equal(store.recentlyEnded(9).length, 1);
});

// As much of the DOM as keep() needs. As in Chromium, an element that is moved or removed loses
// the focus.
class Node {
  constructor(name) {
    this.name = name;
    this.children = [];
    this.parent = null;
    this.touched = 0;  // How often it was put somewhere.
  }
  get firstChild() {
    return this.children[0] ?? null;
  }
  get nextSibling() {
    return this.parent.children[this.parent.children.indexOf(this) + 1] ?? null;
  }
  contains(other) {
    return this === other || this.children.some((child) => child.contains(other));
  }
  remove() {
    if (this.parent === null) return;
    if (this.contains(document.activeElement)) document.activeElement = document.body;
    this.parent.children.splice(this.parent.children.indexOf(this), 1);
    this.parent = null;
  }
  insertBefore(child, place) {
    assert.ok(place === null || place.parent === this);
    assert.notEqual(child, place);
    ++child.touched;
    child.remove();
    this.children.splice(place === null ? this.children.length : this.children.indexOf(place), 0,
        child);
    child.parent = this;
  }
  focus() {
    document.activeElement = this;
  }
}

function listOf(names) {
  const body = new Node('body');
  globalThis.document = {body, activeElement: body};
  const list = new Node('list');
  body.insertBefore(list, null);
  show(list, names);
  return list;
}

// Shows these rows, and returns the names of those that were moved.
function show(list, names) {
  for (const child of list.children) child.touched = 0;
  const before = new Set(list.children);
  keep(list, [...names], (name) => name, (name) => new Node(name), () => {});
  assert.equal(list.children.map((child) => child.name).join(''), names);
  return list.children.filter((child) => before.has(child) && child.touched > 0)
      .map((child) => child.name).join('');
}

test('rows go and come, and the others stay where they are', () => {
  const moved = (before, after) => show(listOf(before), after);
  assert.equal(moved('abcd', 'bcd'), '');
  assert.equal(moved('abcd', 'c'), '');
  assert.equal(moved('abcd', ''), '');
  assert.equal(moved('abcd', 'xaybcdz'), '');
  assert.equal(moved('abcd', 'xbdy'), '');
  assert.equal(moved('abcd', 'bcad'), 'a');  // As a request that ends.
  assert.equal(moved('abcd', 'dabc'), 'd');
  assert.equal(moved('abcd', 'badc'), 'ac');
});

test('a row in focus keeps it, also where it has to move', () => {
  for (const after of ['bcd', 'cd', 'xc', 'bcad', 'abdc', 'dcba', 'cabd', 'xcy']) {
    const list = listOf('abcd');
    const row = list.children[2];
    row.focus();
    show(list, after);
    assert.equal(document.activeElement, row, after);
  }
  const list = listOf('abcd');
  list.children[2].focus();
  show(list, 'abd');
  assert.equal(document.activeElement, document.body);
});

test('any order becomes any other', () => {
  const orders = (letters) => letters === '' ? [''] : [...letters].flatMap((letter) =>
    orders(letters.replace(letter, '')).map((rest) => letter + rest));
  for (const order of orders('abcde')) {
    const list = listOf('abcde');
    show(list, order);
    show(list, 'edxba');
  }
});

// What console.error was called with while `run` ran.
async function errorsOf(t, run) {
  const errors = [];
  t.mock.method(console, 'error', (...words) => errors.push(words.map(String).join(' ')));
  await run();
  t.mock.restoreAll();
  return errors;
}

// Watches a server that sends `text` and ends, or fails, until the connection is lost.
function watchOnce(text, handlers, fails = null) {
  globalThis.fetch = async () => {
    if (text === null) throw new TypeError('Failed to fetch');
    return new Response(new ReadableStream({
      pull(controller) {
        if (text !== '') {
          controller.enqueue(new TextEncoder().encode(text));
          text = '';
        } else if (fails) {
          controller.error(fails);
        } else {
          controller.close();
        }
      },
    }));
  };
  return new Promise((resolve) => {
    const states = [];
    const watcher = watch({key: '', onHello() {}, onFrame() {}, ...handlers, onState({kind}) {
      states.push(kind);
      if (kind !== 'lost') return;
      // The next try is made after this call.
      setTimeout(() => {
        watcher.stop();
        resolve(states);
      }, 0);
    }});
  });
}

const kEvents = 'event: hello\ndata: {}\n\nevent: frame\ndata: {"at":1}\n\n' +
    'event: frame\ndata: {"at":\n\nevent: frame\ndata: {"at":2}\n\n';

test('an event that cannot be shown is logged, and the next one is read', async (t) => {
  const frames = [];
  let states = [];
  const errors = await errorsOf(t, async () => {
    states = await watchOnce(kEvents, {
      onHello() {
        throw new TypeError('a fault in onHello');
      },
      onFrame({at}) {
        frames.push(at);
        if (at === 1) throw new TypeError('a fault in onFrame');
      },
    });
  });
  assert.deepEqual(frames, [1, 2]);
  assert.deepEqual(states, ['connecting', 'live', 'lost']);
  assert.equal(errors.length, 3);
  assert.match(errors[0], /hello.*a fault in onHello/);
  assert.match(errors[1], /frame.*a fault in onFrame/);
  assert.match(errors[2], /SyntaxError/);
});

test('a lost connection is no error of the page', async (t) => {
  const errors = await errorsOf(t, async () => {
    await watchOnce(null, {});
    await watchOnce('event: hello\ndata: {}\n\n', {}, new TypeError('network error'));
    await watchOnce('', {}, new DOMException('', 'AbortError'));
  });
  assert.deepEqual(errors, []);
});
