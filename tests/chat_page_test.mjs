// Tests the modules of the chat page that need no DOM, in node: what is kept, what is sent, and how
// a stream is read.

import assert from 'node:assert/strict';
import test from 'node:test';

import {streamAnswer} from '../web/chat_api.js';
import {messagesOf, runAnswer} from '../web/chat_run.js';
import {ChatStore} from '../web/chat_store.js';

class Storage {
  constructor(quota = Infinity) {
    this.map = new Map();
    this.quota = quota;
  }
  getItem(key) {
    return this.map.get(key) ?? null;
  }
  setItem(key, value) {
    let sum = value.length;
    for (const [k, v] of this.map) sum += k === key ? 0 : v.length;
    if (sum > this.quota) throw new Error('QuotaExceededError');
    this.map.set(key, value);
  }
  removeItem(key) {
    this.map.delete(key);
  }
}

function chatOf(id, used, text = 'x') {
  return {id, title: `T${id}`, used, system: '', settings: {},
    turns: [{user: text, answers: {}}]};
}

test('fifty chats are kept, and the oldest go', () => {
  const told = [];
  const storage = new Storage();
  const store = new ChatStore(storage, (text) => told.push(text));
  for (let i = 0; i < 52; i++) store.save(chatOf(`c${i}`, i));
  assert.equal(store.index().length, 50);
  assert.equal(store.index()[0].id, 'c51');
  assert.equal(store.load('c1'), null);
  assert.notEqual(store.load('c2'), null);
  assert.equal(storage.map.size, 51);
  assert.match(told[1], /“Tc1”/);
});

test('two megabytes are kept, counted in bytes', () => {
  const store = new ChatStore(new Storage(), () => {});
  for (let i = 0; i < 5; i++) store.save(chatOf(`c${i}`, i, '\u00e9'.repeat(300000)));
  assert.deepEqual(store.index().map((entry) => entry.id), ['c4', 'c3', 'c2']);
});

test('a chat that is too large is told and leaves the others', () => {
  const told = [];
  const store = new ChatStore(new Storage(), (text) => told.push(text));
  store.save(chatOf('a', 1));
  store.save(chatOf('b', 2, 'x'.repeat(3e6)));
  assert.deepEqual(store.index().map((entry) => entry.id), ['a']);
  assert.match(told[0], /larger than the 2 MB/);
});

test('a full browser loses the oldest chats first, and says when even one does not fit', () => {
  const told = [];
  const store = new ChatStore(new Storage(3000), (text) => told.push(text));
  store.save(chatOf('a', 1, 'x'.repeat(1000)));
  store.save(chatOf('b', 2, 'x'.repeat(1000)));
  store.save(chatOf('c', 3, 'x'.repeat(1000)));
  assert.deepEqual(store.index().map((entry) => entry.id), ['c', 'b']);
  store.save(chatOf('d', 4, 'x'.repeat(5000)));
  assert.match(told.at(-1), /no room left/);
});

test('spoilt storage reads as empty', () => {
  const storage = new Storage();
  storage.setItem('ropeway-chats', '{"a":');
  storage.setItem('ropeway-chat-x', '[]');
  const store = new ChatStore(storage, () => {});
  assert.deepEqual(store.index(), []);
  assert.equal(store.load('x'), null);
});

test('a damaged chat is none, and goes from the list', () => {
  const good = {...chatOf('x', 1), settings: {a: {}, b: {}},
    turns: [{user: 'u', answers: {a: {text: 'A', state: 'done'}}}]};
  const damages = [
    {settings: undefined}, {settings: 'x'}, {settings: null}, {system: undefined}, {title: 7},
    {turns: {}}, {turns: [null]}, {turns: [{user: 'u'}]}, {turns: [{user: 'u', answers: null}]},
    {turns: [{answers: {}}]}, {turns: [...good.turns, {user: 'u', answers: {a: null}}]},
    {turns: [{user: 'u', answers: {a: {state: 'done'}}}]},
  ];
  for (const storage of [new Storage(), null]) {
    const store = new ChatStore(storage, () => {});
    for (const damage of damages) {
      store.save(chatOf('other', 2));
      store.save({...good, ...damage});
      assert.equal(store.load('x'), null, JSON.stringify(damage));
      assert.deepEqual(store.index().map((entry) => entry.id), ['other']);
      if (storage) assert.equal(storage.getItem('ropeway-chat-x'), null);
    }
    store.save(good);
    assert.deepEqual(store.load('x'), good);
  }
});

test('a pane goes on from its own answers, else from the first one\'s', () => {
  const chat = {system: 'S', turns: [
    {user: 'one', answers: {a: {text: 'A1'}}},
    {user: 'two', answers: {a: {text: 'A2'}, b: {text: 'B2'}}},
    {user: 'three', answers: {a: {text: 'A3'}}},
  ]};
  const texts = (pane, index) => messagesOf(chat, pane, index).map((m) => `${m.role}:${m.content}`);
  assert.deepEqual(texts('b', 2), ['system:S', 'user:one', 'assistant:A1', 'user:two',
    'assistant:B2', 'user:three']);
  assert.deepEqual(texts('a', 1), ['system:S', 'user:one', 'assistant:A1', 'user:two']);
});

test('what a failed turn asked is put before the next', () => {
  const chat = {system: ' ', turns: [
    {user: 'one', answers: {a: {text: '', state: 'failed'}}},
    {user: 'two', answers: {}},
  ]};
  assert.deepEqual(messagesOf(chat, 'a', 1), [{role: 'user', content: 'one\n\ntwo'}]);
});

const kSettings = {model: 'm', priority: 'low', temperature: '0', topP: '', maxTokens: '9',
  seed: '18446744073709551615', thinking: 'off'};

// Has fetch answer with a body of these pieces; returns what it was asked.
function answerWith(pieces, status = 200, headers = {}) {
  const asked = {};
  globalThis.fetch = async (path, options) => {
    Object.assign(asked, options, {path});
    const body = new ReadableStream({
      start(controller) {
        for (const piece of pieces) controller.enqueue(piece);
        controller.close();
      },
    });
    return new Response(body, {status, headers});
  };
  return asked;
}

const kStream = 'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n' +
    'data: {"choices":[{"delta":{"content":"\u00e9\u{1F6A1}"}}]}\r\n\r\n: a comment\n\n' +
    'data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\n' +
    'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3},' +
    '"ropeway":{"seed":18446744073709551615,"queue_ms":1,"prefill_ms":2,"decode_ms":4}}\n\n' +
    'data: [DONE]\n\n';

test('a stream is read in pieces of any size', async () => {
  const bytes = new TextEncoder().encode(kStream);
  for (const size of [1, 2, 7, 1000]) {
    const pieces = [];
    for (let i = 0; i < bytes.length; i += size) pieces.push(bytes.slice(i, i + size));
    const asked = answerWith(pieces);
    let text = '';
    const end = await streamAnswer(kSettings, [], null, (delta) => text += delta.content ?? '');
    assert.equal(text, '\u00e9\u{1F6A1}');
    assert.equal(end.finish, 'length');
    assert.equal(end.seed, '18446744073709551615');
    assert.equal(asked.path, '/v1/chat/completions');
    assert.match(asked.body, /"seed":18446744073709551615}$/);
    assert.deepEqual(Object.keys(JSON.parse(asked.body)).sort(), ['chat_template_kwargs',
      'max_tokens', 'messages', 'model', 'priority', 'seed', 'stream', 'stream_options',
      'temperature']);
  }
});

async function failure(pieces, status, headers) {
  answerWith(pieces.map((piece) => new TextEncoder().encode(piece)), status, headers);
  const chat = {system: '', settings: {a: kSettings}, turns: [{user: 'u', answers: {}}]};
  const needsKey = await runAnswer(chat, 'a', 0, null, () => {});
  return {needsKey, ...chat.turns[0].answers.a};
}

test('errors are told in the server\'s words, and what came before them stays', async () => {
  const full = await failure(['{"error":{"message":"The queue is full."}}'], 429,
      {'Retry-After': '7'});
  assert.equal(full.error, 'The queue is full; try again in 7 s.');
  assert.equal(full.state, 'failed');
  assert.equal(full.needsKey, false);
  const key = await failure(['{"error":{"message":"No key."}}'], 401);
  assert.equal(key.needsKey, true);
  assert.equal((await failure(['<html>'], 502)).error, 'The server answered with status 502.');
  const text = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';
  const late = await failure([text, 'data: {"error":{"message":"Step 4 failed."}}\n\n'], 200);
  assert.deepEqual([late.text, late.error], ['a', 'Step 4 failed.']);
  const cut = await failure([text], 200);
  assert.deepEqual([cut.text, cut.error], ['a', 'The connection broke before the answer ended.']);
});

test('facts come from the server\'s timings', async () => {
  const {facts, state} = await failure([kStream], 200);
  assert.equal(state, 'done');
  assert.equal(facts.ttft, 3);
  assert.equal(facts.rate, 500);
  assert.equal(facts.tokens, 3);
  assert.equal(facts.cached, 0);
});

test('calls of tools are put together', async () => {
  const part = (index, fn) => 'data: ' + JSON.stringify({choices: [{delta: {
    tool_calls: [{index, function: fn}]}}]}) + '\n\n';
  const {calls} = await failure([part(0, {name: 'f', arguments: ''}), part(0, {arguments: '{"a'}),
    part(1, {name: 'g', arguments: '{}'}), part(0, {arguments: '":1}'}), 'data: [DONE]\n\n'], 200);
  assert.deepEqual(calls, [{name: 'f', arguments: '{"a":1}'}, {name: 'g', arguments: '{}'}]);
});
