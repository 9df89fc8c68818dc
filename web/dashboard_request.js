// The panel with the life of one request.
import {byId, clock, count, keep, make, seconds, setText, time} from './dashboard_format.js';
import {whyItWaits} from './dashboard_why.js';

const EVENT_WORDS = {
  came: 'came',
  encoding: 'its prompt is encoded',
  waiting: 'waits in the queue',
  running: 'runs',
  sent: 'sent',
  prefill: 'its prompt is computed',
  decode: 'its answer is computed',
  preempted: 'preempted: gave way to another one',
  resumed: 'resumed',
  fetching: 'fetches KV blocks from disk',
  moved: 'changed its backend',
  ended: 'ended',
};

// Where a gateway's words differ.
const GATEWAY_WORDS = {
  running: 'computed there',
  preempted: 'waits for another backend',
  resumed: 'goes on',
};

const REASONS = {
  stop: 'the answer was complete',
  length: 'the limit of tokens was reached',
  cancelled: 'cancelled',
  failed: 'failed',
};

export class RequestPanel {
  constructor(onClose) {
    this.panel = byId('request-panel');
    this.request = null;
    this.before = null;
    this.onClose = onClose;
    byId('panel-close').addEventListener('click', () => this.close());
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.request) this.close();
    });
  }

  open(request, store) {
    if (!this.request) this.before = document.activeElement;
    this.request = request;
    this.panel.hidden = false;
    document.body.classList.add('has-panel');
    this.draw(store);
    byId('panel-title').focus();
  }

  close() {
    this.panel.hidden = true;
    document.body.classList.remove('has-panel');
    this.request = null;
    if (this.before && this.before.isConnected) this.before.focus();
    this.before = null;
    this.onClose();
  }

  draw(store) {
    const {request} = this;
    if (!request || !store.frame) return;
    setText(byId('panel-title'), `Request ${request.id}`);
    const tags = [
      {key: 'class', text: `class ${request.class}`, name: `chip class-${request.class}`},
      {key: 'tenant', text: request.tenant === '' ? 'no key' : `tenant ${request.tenant}`},
      {key: 'state', text: store.stateWords(request)},
    ];
    if (request.backend) tags.push({key: 'backend', text: `at ${request.backend}`});
    keep(byId('panel-tags'), tags, (tag) => tag.key, (tag) => make('span', tag.name || 'tag'),
        (element, tag) => {
          if (tag.name) element.className = tag.name;
          setText(element, tag.text);
        });
    setText(byId('why'), whyItWaits(request, store));
    this.drawFacts(request, store);
    this.drawLife(request, store.gateway);
  }

  drawFacts(request, store) {
    const {ended} = request;
    const cached = request.cached;
    const facts = [
      ['Prompt', request.prompt > 0 ? `${count(request.prompt)} tokens` : 'not known yet'],
      ['of these from the KV cache', cached === null ? 'not known yet' : `${count(cached)} tokens`],
    ];
    // A gateway counts the tokens at the end.
    if (!store.gateway || ended) {
      facts.push(['Answer', `${count(Math.max(0, request.output))} tokens`]);
    }
    if (!store.gateway) {
      const often = request.preemptions;
      facts.push(['Preempted', often === 1 ? 'once' : `${count(often)} times`]);
    }
    if (request.chunks > 0) facts.push(['Chunks of the prompt, as seen', count(request.chunks)]);
    if (store.gateway) facts.push(['Changes of backend', count(request.moves)]);
    facts.push(['Age', seconds((ended ? ended.at : store.frame.at) - request.came)]);
    if (ended) {
      facts.push(['Queue', time(ended.queue_ms)], ['Prompt (prefill)', time(ended.prefill_ms)],
          ['Answer (decode)', time(ended.decode_ms)]);
    }
    const list = byId('panel-facts');
    keep(list, facts.flatMap(([term, text]) => [[`${term} term`, term], [`${term} text`, text]]),
        ([key]) => key, ([key]) => make(key.endsWith(' term') ? 'dt' : 'dd', ''),
        (element, [, text]) => setText(element, text));
    const split = byId('panel-split');
    split.hidden = !ended;
    if (!ended) return;
    const total = Math.max(1e-6, ended.queue_ms + ended.prefill_ms + ended.decode_ms);
    keep(split, ['queue', 'prefill', 'decode'], (name) => name, (name) => make('span', name),
        (element, name) => {
          element.style.width = `${(100 * ended[`${name}_ms`]) / total}%`;
        });
  }

  drawLife(request, gateway) {
    const {events} = request;
    const life = byId('panel-life');
    if (life.of !== request) {
      life.of = request;
      keep(life, [], () => '', () => null, () => {});
    }
    keep(life, events, (event) => event, (event) => {
      let words = (gateway && GATEWAY_WORDS[event.what]) || EVENT_WORDS[event.what] || event.what;
      if (event.what === 'ended') words += `: ${REASONS[event.detail] || event.detail}`;
      else if (event.detail) words += ` ${event.what === 'resumed' ? '(' : ''}${event.detail}` +
          `${event.what === 'resumed' ? ')' : ''}`;
      const item = make('li', '', make('time', '', clock(event.at)), make('span', '', words));
      item.dataset.what = event.what;
      return item;
    }, () => {});
  }
}
