// Tests the modules of the dashboard in node: what the page knows after another connection.

import assert from 'node:assert/strict';
import test from 'node:test';

import {Store} from '../web/dashboard_store.js';

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
