// Shows the turns of a chat in a pane. What a model or a reader wrote becomes text nodes only.

import {render} from './markdown.js';

export function make(tag, className = '', text = '') {
  const element = document.createElement(tag);
  if (className !== '') element.className = className;
  if (text !== '') element.textContent = text;
  return element;
}

export function makeButton(text, className, onClick) {
  const button = make('button', className, text);
  button.type = 'button';
  button.addEventListener('click', onClick);
  return button;
}

// Pages that came by http from another machine have no clipboard but this old way to it.
function copyOldWay(text) {
  const focused = document.activeElement;
  const area = make('textarea', 'hidden-text');
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  focused?.focus();
  if (!done) throw new Error('The browser does not copy.');
}

// Puts a text on the clipboard and says so on the button for a moment.
export async function copyText(text, button) {
  const label = button.textContent;
  if (button.dataset.busy) return;
  button.dataset.busy = 'yes';
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
    } else {
      copyOldWay(text);
    }
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Not allowed';
  }
  setTimeout(() => {
    button.textContent = label;
    delete button.dataset.busy;
  }, 1200);
}

function milliseconds(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

const kFinish = {
  length: 'cut at max tokens',
  content_filter: 'cut by a filter',
  tool_calls: 'calls a tool',
};

// What is told under an answer: [text, explanation] each.
function factsOf(answer) {
  const {facts} = answer;
  const list = [];
  if (facts === undefined) return list;
  if (facts.rate !== undefined) {
    list.push([`${facts.rate.toFixed(1)} tokens/s`, 'Output tokens per second after the first one']);
  }
  if (facts.ttft !== undefined) {
    const parts = facts.queued === undefined ? 'measured in the browser' :
        `${milliseconds(facts.queued)} in the queue, ${milliseconds(facts.prefill)} for the prompt`;
    list.push([`TTFT ${milliseconds(facts.ttft)}`, `Time to first token: ${parts}`]);
  }
  if (facts.tokens !== undefined) {
    list.push([`${facts.counted ? 'about ' : ''}${facts.tokens} tokens`, 'Output tokens']);
  }
  if (facts.prompt !== undefined) {
    list.push([`${facts.cached} of ${facts.prompt} prompt tokens cached`,
      'Tokens of the prompt that were in the cache and not computed again']);
  }
  if (facts.queued > 100) list.push([`waited ${milliseconds(facts.queued)}`, 'Time in the queue']);
  if (facts.priority) list.push([facts.priority, 'Priority class']);
  if (facts.seed) list.push([`seed ${facts.seed}`, 'The same seed gives the same answer']);
  if (facts.finish && facts.finish !== 'stop') {
    const why = facts.cutBy ? `cut by the key's ${facts.cutBy}` :
        facts.contextEnd ? 'cut at the end of the context' : kFinish[facts.finish] ?? facts.finish;
    list.push([why, `finish_reason: ${facts.finish}`]);
  }
  if (answer.state === 'stopped') list.push(['stopped', 'You stopped this answer']);
  return list;
}

// One answer: made once, then updated as it grows.
class AnswerView {
  constructor(pane) {
    this.root = make('div', 'answer');
    this.thoughts = make('details', 'thoughts');
    this.thoughts.hidden = true;
    this.thoughts.append(make('summary', '', 'Thoughts'));
    this.thoughtText = make('div', 'thought-text');
    this.thoughts.append(this.thoughtText);
    this.text = make('div', 'text');
    this.calls = make('div', 'calls');
    this.error = make('p', 'error');
    this.error.hidden = true;
    this.facts = make('ul', 'facts');
    this.actions = make('div', 'actions');
    this.root.append(this.thoughts, this.text, this.calls, this.error, this.facts, this.actions);
    this.pane = pane;
  }

  update(answer) {
    const busy = answer.state === 'waiting' || answer.state === 'streaming';
    this.root.dataset.state = answer.state;
    this.root.setAttribute('aria-busy', String(busy));
    const thoughts = answer.thoughts ?? '';
    this.thoughts.hidden = thoughts === '';
    if (thoughts !== '') {
      this.thoughts.firstChild.textContent = busy && answer.text === '' ? 'Thinking…' : 'Thoughts';
      this.thoughtText.textContent = thoughts;
    }
    render(this.text, answer.text);
    this.#showCalls(answer.calls ?? []);
    this.error.hidden = !answer.error;
    this.error.textContent = answer.error ?? '';
    this.facts.replaceChildren(...factsOf(answer).map(([text, explanation]) => {
      const item = make('li', '', text);
      item.title = explanation;
      return item;
    }));
  }

  #showCalls(calls) {
    if (calls.length === 0) {
      this.calls.replaceChildren();
      return;
    }
    this.calls.replaceChildren(...calls.map((call) => {
      const pre = make('pre', 'call');
      pre.tabIndex = 0;
      pre.append(make('code', '', `${call.name}(${call.arguments})`));
      return pre;
    }));
  }
}

// The turns of one pane. `on` has what the reader can do: regenerate(pane), edit(turn, text).
export class PaneView {
  constructor(root, pane, on) {
    this.root = root;
    this.pane = pane;
    this.on = on;
    this.views = [];
    root.addEventListener('click', (event) => {
      const button = event.target.closest?.('.copy-code');
      if (!button) return;
      copyText(button.closest('.code-block').querySelector('code').textContent, button);
    });
  }

  // Shows a whole chat; `empty` is what stands in one without turns.
  show(chat, empty) {
    this.chat = chat;
    this.views = [];
    this.root.replaceChildren();
    if (chat.turns.length === 0) this.root.append(...empty);
    chat.turns.forEach((_, index) => this.#addTurn(index));
    this.#showActions();
    this.toEnd();
  }

  answerOf(turn) {
    return turn.answers[this.pane] ?? turn.answers.a;
  }

  // A turn was added at the end.
  add() {
    if (this.views.length === 0) this.root.replaceChildren();
    this.#addTurn(this.chat.turns.length - 1);
    this.#showActions();
    this.toEnd();
  }

  // The answer of a turn has changed. `final` when it will not grow any more.
  update(index, final) {
    const view = this.views[index];
    const answer = this.answerOf(this.chat.turns[index]);
    if (view === undefined || answer === undefined) return;
    const {root} = this;
    const atEnd = root.scrollHeight - root.scrollTop - root.clientHeight < 60;
    view.update(answer);
    if (final) this.#showActions();
    if (atEnd) this.toEnd();
  }

  toEnd() {
    this.root.scrollTop = this.root.scrollHeight;
  }

  #addTurn(index) {
    const turn = this.chat.turns[index];
    const box = make('div', 'turn');
    const user = make('div', 'user');
    this.#showUser(user, turn, index);
    const view = new AnswerView(this.pane);
    const answer = this.answerOf(turn);
    if (answer !== undefined) view.update(answer);
    box.append(make('h3', 'hidden-text', 'You'), user, make('h3', 'hidden-text', 'Answer'),
        view.root);
    this.root.append(box);
    this.views.push(view);
  }

  #showUser(user, turn, index) {
    const actions = make('div', 'actions');
    const copy = makeButton('Copy', 'quiet', () => copyText(turn.user, copy));
    const edit = makeButton('Edit', 'quiet', () => this.#edit(user, turn, index));
    actions.append(copy, edit);
    user.replaceChildren(make('div', 'bubble', turn.user), actions);
  }

  #edit(user, turn, index) {
    const form = make('form', 'edit');
    const area = make('textarea');
    area.value = turn.user;
    area.rows = Math.min(8, turn.user.split('\n').length + 1);
    area.setAttribute('aria-label', 'Edit the message');
    const later = this.chat.turns.length - 1 - index;
    const send = make('button', 'primary',
        later === 0 ? 'Send' : `Send, and drop ${later} later turn${later === 1 ? '' : 's'}`);
    send.type = 'submit';
    const close = () => {
      this.#showUser(user, turn, index);
      user.querySelector('.actions').lastChild.focus();
    };
    const cancel = makeButton('Cancel', '', close);
    const submit = (event) => {
      event.preventDefault();
      const text = area.value.trim();
      if (text !== '' && this.on.edit(index, text) === false) area.focus();
    };
    form.addEventListener('submit', submit);
    area.addEventListener('keydown', (event) => {
      if (event.isComposing) return;
      if (event.key === 'Enter' && !event.shiftKey) submit(event);
      if (event.key === 'Escape') {
        event.stopPropagation();
        close();
      }
    });
    const row = make('div', 'edit-row');
    row.append(send, cancel);
    form.append(area, row);
    user.replaceChildren(form);
    area.focus();
  }

  // The last answer can be had again; every answer can be copied.
  #showActions() {
    this.views.forEach((view, index) => {
      const answer = this.answerOf(this.chat.turns[index]);
      const busy = answer === undefined || answer.state === 'waiting' ||
          answer.state === 'streaming';
      const buttons = [];
      if (!busy && answer.text !== '') {
        const copy = makeButton('Copy', 'quiet', () => copyText(answer.text, copy));
        buttons.push(copy);
      }
      if (!busy && index === this.views.length - 1) {
        buttons.push(makeButton(answer.state === 'failed' ? 'Try again' : 'Regenerate', 'quiet',
            () => this.on.regenerate(this.pane)));
      }
      view.actions.replaceChildren(...buttons);
    });
  }
}
