// The chat page: several chats, one or two panes, a composer.

import {fetchModels, keepKey, readKey} from './chat_api.js';
import {ChatList} from './chat_list.js';
import {runAnswer} from './chat_run.js';
import {SettingsView, defaultSettings} from './chat_settings.js';
import {ChatStore, openStorage} from './chat_store.js';
import {PaneView, make, makeButton} from './chat_view.js';

const kFrameMs = 50;

const byId = (id) => document.getElementById(id);
const input = byId('input');
const system = byId('system');

let chat = null;
// What runs now: {controller, chat} or null.
let running = null;
// Whether failed answers are sent again once a key is given.
let wantsKey = false;

// ---- One line for errors and news.

function notice(text, action = null) {
  byId('notice').hidden = text === '';
  byId('notice-text').textContent = text;
  const act = byId('notice-act');
  act.hidden = action === null;
  act.textContent = action?.label ?? '';
  act.onclick = () => {
    notice('');
    action.run();
    input.focus();
  };
}

function speak(text) {
  byId('spoken').textContent = text;
}

// ---- Chats.

const store = new ChatStore(openStorage(), (text) => notice(text));

function newChat() {
  return {
    id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`.replace('.', ''),
    title: 'New chat',
    named: false,
    used: Date.now(),
    system: chat?.system ?? '',
    compare: chat?.compare ?? false,
    settings: {
      a: {...(chat?.settings.a ?? defaultSettings())},
      b: {...(chat?.settings.b ?? defaultSettings())},
    },
    turns: [],
  };
}

// A chat is kept from its first turn on.
function keep() {
  if (chat.turns.length === 0) return;
  store.save(chat);
  list.show(chat.id);
}

function openChat(next) {
  stop();
  chat = next;
  for (const pane of ['a', 'b']) {
    chat.settings[pane] = {...defaultSettings(), ...chat.settings[pane]};
  }
  for (const turn of chat.turns) {
    for (const answer of Object.values(turn.answers)) {
      if (answer.state === 'waiting' || answer.state === 'streaming') answer.state = 'stopped';
    }
  }
  system.value = chat.system;
  showSystemLine();
  settingsViews.a.show(chat.settings.a);
  settingsViews.b.show(chat.settings.b);
  byId('title').textContent = chat.title;
  showCompare();
  showPanes();
  list.show(chat.id);
}

const list = new ChatList(byId('chats'), store, {
  open(id) {
    const next = id === chat.id ? chat : store.load(id);
    if (next === null) {
      notice('This chat is not in the browser any more.');
      list.show(chat.id);
      return;
    }
    if (next !== chat) openChat(next);
    setSide(false);
    input.focus();
  },
  rename(id, title) {
    const renamed = id === chat.id ? chat : store.load(id);
    if (renamed === null) {
      notice('This chat is not in the browser any more.');
      list.show(chat.id);
      return;
    }
    renamed.title = title;
    renamed.named = true;
    store.save(renamed);
    if (renamed === chat) byId('title').textContent = title;
    list.show(chat.id);
  },
  remove(id) {
    const removed = id === chat.id ? chat : store.load(id);
    if (removed === chat) stop();
    store.remove(id);
    if (removed === chat) {
      openChat(newChat());
    } else {
      list.show(chat.id);
    }
    if (removed === null) return;
    notice(`Deleted “${removed.title}”.`, {
      label: 'Undo',
      run: () => {
        store.save(removed);
        openChat(removed);
      },
    });
    input.focus();
  },
});

// ---- Panes.

const on = {
  edit(index, text) {
    if (busy()) return false;
    chat.turns.length = index + 1;
    chat.turns[index] = {user: text, answers: {}};
    showPanes();
    run(index, panes());
    return true;
  },
  regenerate(pane) {
    if (!busy()) run(chat.turns.length - 1, [pane]);
  },
};
const views = {a: new PaneView(byId('pane-a'), 'a', on), b: new PaneView(byId('pane-b'), 'b', on)};

function settingChanged() {
  keep();
}
const settingsViews = {
  a: new SettingsView(byId('settings-a'), '', settingChanged),
  b: new SettingsView(byId('settings-b'), '-b', settingChanged),
};

function panes() {
  return chat.compare ? ['a', 'b'] : ['a'];
}

const kExamples = [
  'What is a ropeway?',
  'Write a haiku about a cable car in fog.',
  'Show a Python function that reverses a list, and explain it.',
];

// What stands in a chat without turns.
function emptyNodes(pane) {
  const box = make('div', 'empty');
  if (pane === 'b') {
    box.append(make('p', 'muted', 'The same prompts, under the settings above.'));
    return [box];
  }
  box.append(make('p', 'empty-title', 'Ask the model something'));
  const row = make('div', 'examples');
  for (const example of kExamples) {
    row.append(makeButton(example, '', () => {
      input.value = example;
      send();
    }));
  }
  box.append(row);
  return [box];
}

function showPanes() {
  for (const pane of panes()) views[pane].show(chat, emptyNodes(pane));
  showSame();
}

function showCompare() {
  byId('compare').setAttribute('aria-pressed', String(chat.compare));
  byId('second').hidden = !chat.compare;
  byId('compare-bar').hidden = !chat.compare;
  document.body.classList.toggle('comparing', chat.compare);
}

// Says whether the answers of the last turn are equal.
function showSame() {
  const same = byId('same');
  const answers = chat.turns[chat.turns.length - 1]?.answers ?? {};
  const {a, b} = answers;
  const ended = (answer) => answer?.state === 'done';
  delete same.dataset.state;
  if (!chat.compare || !ended(a) || !ended(b)) {
    same.textContent = '';
    return;
  }
  const whole = (answer) => [answer.thoughts, answer.text, JSON.stringify(answer.calls)].join('\n');
  const one = whole(a);
  const other = whole(b);
  if (one === other) {
    same.dataset.state = 'same';
    same.textContent = 'The two answers are the same, character by character.';
    return;
  }
  same.dataset.state = 'differ';
  if (a.thoughts !== b.thoughts || a.text === b.text) {
    same.textContent = 'The two answers differ.';
    return;
  }
  let at = 0;
  while (a.text[at] === b.text[at]) at++;
  same.textContent = `The two answers differ from character ${at + 1} on.`;
}

// ---- Asking.

function busy() {
  if (running === null) return false;
  notice('An answer is under way. Stop it with Esc first.');
  return true;
}

function showRunning() {
  const had = document.activeElement;
  byId('send').hidden = running !== null;
  byId('stop').hidden = running === null;
  if (had === byId('send') || had === byId('stop') || had === document.body) input.focus();
}

// Calls `show` at most every 50 ms, and less often where it takes long.
function throttled(show) {
  let timer = null;
  let cost = 0;
  const now = () => {
    timer = null;
    const begin = performance.now();
    show();
    cost = performance.now() - begin;
  };
  return {
    request() {
      timer ??= setTimeout(now, Math.max(kFrameMs, 3 * cost));
    },
    stop() {
      clearTimeout(timer);
      timer = null;
    },
  };
}

async function runPane(asked, pane, index, signal) {
  const shown = () => asked === chat;
  const frame = throttled(() => shown() && views[pane].update(index, false));
  const needsKey = await runAnswer(asked, pane, index, signal, () => frame.request());
  frame.stop();
  if (shown()) views[pane].update(index, true);
  return needsKey;
}

// Has a turn answered in these panes.
async function run(index, which) {
  const asked = chat;
  const own = {controller: new AbortController(), chat: asked};
  running = own;
  notice('');
  for (const pane of which) asked.turns[index].answers[pane] = {text: '', state: 'waiting'};
  for (const pane of which) views[pane].update(index, true);
  showSame();
  showRunning();
  speak('The model answers.');
  keep();
  const needs = await Promise.all(
      which.map((pane) => runPane(asked, pane, index, own.controller.signal)));
  asked.used = Date.now();
  if (running === own) {
    running = null;
    showRunning();
  }
  if (asked !== chat) {
    // The reader has gone on to another chat; this one is kept as it was left.
    if (store.load(asked.id) !== null) store.save(asked);
    return;
  }
  showSame();
  keep();
  const answers = which.map((pane) => asked.turns[index].answers[pane]);
  if (needs.includes(true)) {
    wantsKey = true;
    askKey();
  }
  speak(answers.map((answer, i) => {
    const name = which.length > 1 ? `Answer ${which[i].toUpperCase()}` : 'Answer';
    return `${name}: ${answer.error ?? answer.text.slice(0, 3000)}`;
  }).join('\n'));
}

function stop() {
  running?.controller.abort();
}

function send() {
  const text = input.value.trim();
  if (text === '' || busy()) return;
  for (const pane of panes()) {
    const wrong = settingsViews[pane].invalid();
    if (wrong !== null) {
      notice(wrong);
      return;
    }
  }
  if (!chat.named && chat.turns.length === 0) {
    chat.title = text.replace(/\s+/g, ' ').slice(0, 60);
    byId('title').textContent = chat.title;
  }
  chat.used = Date.now();
  chat.turns.push({user: text, answers: {}});
  input.value = '';
  grow();
  for (const pane of panes()) views[pane].add();
  run(chat.turns.length - 1, panes());
  input.focus();
}

function grow() {
  input.style.height = 'auto';
  input.style.height = `${Math.min(input.scrollHeight + 2, 220)}px`;
}

// ---- The key and the models.

function askKey() {
  byId('key-form').hidden = false;
  byId('key-button').setAttribute('aria-expanded', 'true');
  byId('key-forget').hidden = readKey() === '';
  byId('key-input').focus();
}

function closeKey() {
  byId('key-form').hidden = true;
  byId('key-button').setAttribute('aria-expanded', 'false');
  byId('key-input').value = '';
}

async function loadModels() {
  try {
    const models = await fetchModels();
    for (const pane of ['a', 'b']) settingsViews[pane].showModels(models);
  } catch (error) {
    if (error.status === 401) {
      askKey();
      notice(readKey() === '' ? 'This server asks for an API key.' : error.message);
      return false;
    }
    notice(error.message ?? 'The list of models could not be read.',
        {label: 'Try again', run: loadModels});
    return false;
  }
  return true;
}

byId('key-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const key = byId('key-input').value.trim();
  if (key === '') return;
  if (/[^\x21-\x7e]/.test(key)) {
    notice('A key has printable ASCII characters only.');
    return;
  }
  if (!keepKey(key)) notice('This browser keeps no key for this page.');
  notice('');
  if (!await loadModels()) return;
  closeKey();
  input.focus();
  const index = chat.turns.length - 1;
  if (wantsKey && running === null && index >= 0) {
    const failed = panes().filter((pane) => chat.turns[index].answers[pane]?.state === 'failed');
    if (failed.length > 0) run(index, failed);
  }
  wantsKey = false;
});
byId('key-forget').addEventListener('click', () => {
  keepKey('');
  closeKey();
  notice('The key is forgotten.');
  input.focus();
});
byId('key-button').addEventListener('click', () => {
  setSide(false);
  if (byId('key-form').hidden) {
    askKey();
  } else {
    closeKey();
  }
});

// ---- Controls.

byId('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  send();
});
input.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
input.addEventListener('input', grow);
byId('stop').addEventListener('click', stop);
byId('notice-close').addEventListener('click', () => {
  notice('');
  input.focus();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || event.isComposing) return;
  if (running !== null) {
    stop();
  } else if (document.body.classList.contains('side-open')) {
    setSide(false);
    byId('side-button').focus();
  } else if (!byId('key-form').hidden) {
    closeKey();
    byId('key-button').focus();
  }
});

function showSystemLine() {
  const text = chat.system.trim().replace(/\s+/g, ' ');
  byId('system-line').textContent = text === '' ? 'none' : text.slice(0, 120);
}
system.addEventListener('input', () => {
  chat.system = system.value;
  showSystemLine();
});
system.addEventListener('change', keep);

byId('compare').addEventListener('click', () => {
  if (busy()) return;
  chat.compare = !chat.compare;
  showCompare();
  showPanes();
  keep();
});
byId('preset-same').addEventListener('click', () => {
  if (chat.settings.a.seed === '') chat.settings.a.seed = '7';
  chat.settings.b = {...chat.settings.a};
  presetsChanged();
});
byId('preset-classes').addEventListener('click', () => {
  chat.settings.b = {...chat.settings.a, priority: 'low'};
  chat.settings.a.priority = 'high';
  presetsChanged();
});

function presetsChanged() {
  for (const pane of ['a', 'b']) settingsViews[pane].show(chat.settings[pane]);
  keep();
}

function setSide(open) {
  document.body.classList.toggle('side-open', open);
  byId('side-button').setAttribute('aria-expanded', String(open));
}
byId('side-button').addEventListener('click', () => {
  setSide(!document.body.classList.contains('side-open'));
  if (document.body.classList.contains('side-open')) byId('new-chat').focus();
});
byId('new-chat').addEventListener('click', () => {
  openChat(newChat());
  setSide(false);
  input.focus();
});

addEventListener('pagehide', keep);

// Settings are open where there is room for them.
const wide = matchMedia('(min-width: 900px)').matches;
byId('settings-a').open = wide;
byId('settings-b').open = wide;

const [latest] = store.index();
openChat((latest && store.load(latest.id)) ?? newChat());
loadModels();
input.focus();
