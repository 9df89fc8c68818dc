// What the page knows: the frames put together to the lives of requests. All of it is bounded.

const MOST_ENDED = 256;  // As many as the server keeps.
const MOST_EVENTS = 48;  // Of one request's life.
const RATE_SECONDS = 10;  // A gateway's rates are of so long.
const GONE_AFTER = 5;    // Seconds after which a request that no frame names any more is dropped.

// The states as the page shows them.
const STATE_NAMES = {
  encoding: 'encoding',
  waiting: 'waiting',
  prefill: 'prefill',
  decode: 'decode',
  preempted: 'preempted',
  fetching: 'fetching from disk',
  running: 'running',
  ended: 'ended',
  gone: 'not seen any more',
};

export class Store {
  constructor() {
    this.hello = {kind: 'engine', models: [], slots: 0, strategy: '', version: ''};
    this.clear();
  }

  clear() {
    this.frame = null;
    this.requests = new Map();  // By id, those that ended included.
    this.ended = [];            // The oldest first.
    this.lastEnded = 0;
    this.lastEndedAt = 0;
    this.lastStep = 0;
    this.newSteps = [];
    this.endedTokens = [];  // Of a gateway, in the last seconds.
    this.began = 0;
    this.generation = (this.generation || 0) + 1;
  }

  get gateway() {
    return this.hello.kind === 'gateway';
  }

  // Another server process counts its steps and requests anew; this one goes on where it was.
  setHello(hello) {
    if (!hello.process || hello.process !== this.hello.process) this.clear();
    this.hello = hello;
  }

  // Whether a frame is of another process than the last one, where `hello` named none.
  isOther(frame) {
    if (this.hello.process) return false;
    if (frame.steps.length > 0 && frame.steps[0].step < this.lastStep) return true;
    if (frame.ended.length > 0 && this.lastEnded > 0) {
      const last = frame.ended[frame.ended.length - 1];
      if (last.number < this.lastEnded) return true;
      const same = frame.ended.find((ended) => ended.number === this.lastEnded);
      if (same && same.at !== this.lastEndedAt) return true;
    }
    return false;
  }

  add(frame) {
    if (this.isOther(frame)) this.clear();
    this.frame = frame;
    if (this.began === 0) this.began = frame.at;
    for (const seen of frame.requests) this.addRequest(seen, frame.at);
    // Some came and ended between two frames, and have steps.
    for (const ended of frame.ended) this.shellOf(ended);
    this.addSteps(frame);
    for (const ended of frame.ended) this.addEnded(ended);
    this.dropOld(frame);
  }

  addRequest(seen, at) {
    let request = this.requests.get(seen.id);
    if (!request) {
      request = makeRequest(seen, at - seen.age);
      this.requests.set(seen.id, request);
    }
    request.seen = at;
    request.position = seen.position;
    if (seen.prompt > 0) request.prompt = seen.prompt;
    if (seen.backend !== undefined && seen.backend !== request.backend) {
      if (request.backend) {
        ++request.moves;
        request.movedAt = at;
        note(request, at, 'moved', `from ${request.backend} to ${seen.backend || 'the queue'}`);
      } else {
        note(request, at, 'sent', `to ${seen.backend}`);
      }
      request.backend = seen.backend;
    }
    if (seen.state !== request.state) {
      if (this.gateway) {
        this.noteAtGateway(request, seen.state, at);
      } else if (seen.state !== 'preempted' && seen.state !== 'running') {
        note(request, at, seen.state, '');  // The others are told by steps.
      }
      request.state = seen.state;
    }
    if (seen.state !== 'running') {
      request.phase = seen.state;
    } else if (!['prefill', 'decode', 'fetching'].includes(request.phase)) {
      request.phase = 'running';
    }
  }

  // There, what was sent and waits again is preempted: its backend was lost, or had no place.
  noteAtGateway(request, state, at) {
    if (state === 'preempted') {
      preempt(request, at);
      request.preemptedAt = at;
    } else if (state === 'running' && request.wasPreempted) {
      request.wasPreempted = false;
      request.resumedAt = at;
      note(request, at, 'resumed', '');
    } else {
      note(request, at, state, '');
    }
  }

  addSteps(frame) {
    this.newSteps = [];
    for (const step of frame.steps) {
      if (step.step <= this.lastStep) continue;  // After a new connection.
      this.lastStep = step.step;
      const at = frame.at - step.ago_ms / 1000;
      const made = {...step, at, resumed: [], started: []};
      this.newSteps.push(made);
      for (const id of step.preempted) {
        const request = this.requests.get(id);
        if (request) preempt(request, at);
      }
      for (const id of step.fetching) {
        const request = this.requests.get(id);
        if (request && request.phase !== 'fetching') {
          request.phase = 'fetching';
          note(request, at, 'fetching', '');
        }
      }
      for (const row of step.rows) this.addRow(row, made);
    }
  }

  addRow([id, kind, start, tokens], step) {
    const {at} = step;
    const request = this.requests.get(id);
    if (!request) return;
    if (request.wasPreempted) {
      request.wasPreempted = false;
      step.resumed.push(id);
      note(request, at, 'resumed', start > 0 ? `${start} tokens were still in the KV cache` : '');
    }
    const phase = kind === 0 ? 'prefill' : 'decode';
    if (request.cached === null) request.cached = kind === 0 && request.lastRow === 0 ? start : 0;
    if (request.phase !== phase) {
      const last = request.events[request.events.length - 1];
      if (!last || last.what !== phase) note(request, at, phase, '');
      request.phase = phase;
    }
    if (request.lastRow === 0) step.started.push(id);
    if (kind === 0) ++request.chunks;
    if (kind === 1 && request.prompt > 0) request.output = start - request.prompt + tokens + 1;
    request.lastRow = step.step;
    request.lastRowAt = at;
  }

  shellOf(ended) {
    let request = this.requests.get(ended.id);
    if (request || ended.number <= this.lastEnded) return request;
    const took = (ended.queue_ms + ended.prefill_ms + ended.decode_ms) / 1000;
    request = makeRequest(ended, ended.at - took);
    request.prompt = ended.prompt;
    this.requests.set(ended.id, request);
    return request;
  }

  addEnded(ended) {
    if (ended.number <= this.lastEnded) return;
    this.lastEnded = ended.number;
    this.lastEndedAt = ended.at;
    const request = this.shellOf(ended);
    Object.assign(request, {
      state: 'ended', phase: 'ended', ended, position: null, seen: ended.at,
      prompt: ended.prompt || request.prompt || 0, cached: ended.cached, output: ended.output,
      preemptions: ended.preemptions,
    });
    note(request, ended.at, 'ended', ended.reason);
    if (this.gateway) this.endedTokens.push(ended);
    this.ended.push(request);
    while (this.ended.length > MOST_ENDED) {
      const old = this.ended.shift();
      if (this.requests.get(old.id) === old) this.requests.delete(old.id);
    }
  }

  // A reader that is too slow loses frames, and with them ends.
  dropOld(frame) {
    for (const request of this.requests.values()) {
      if (request.ended || request.seen === frame.at) continue;
      if (frame.requests_left_out > 0 && frame.at - request.seen < 10 * GONE_AFTER) continue;
      if (frame.at - request.seen > GONE_AFTER) {
        request.phase = request.state = 'gone';
        this.requests.delete(request.id);
      }
    }
  }

  // Tokens a second. A gateway computes none itself: there it is the tokens of ended requests.
  rates() {
    const {at, rates} = this.frame;
    if (!this.gateway) return rates;
    this.endedTokens = this.endedTokens.filter((ended) => ended.at > at - RATE_SECONDS);
    let prompt = 0;
    let output = 0;
    for (const ended of this.endedTokens) {
      prompt += ended.prompt;
      output += ended.output;
    }
    return {prompt: prompt / RATE_SECONDS, output: output / RATE_SECONDS, busy: 0};
  }

  // What a request does, in words.
  stateWords(request) {
    if (request.ended) return `ended: ${request.ended.reason}`;
    if (this.gateway && request.phase === 'preempted') return 'waits for another backend';
    if (this.gateway && request.phase === 'running') return 'at a backend';
    return STATE_NAMES[request.phase] || request.phase;
  }

  // Which of the six colours a backend has.
  backendColour(name) {
    const backends = this.frame.backends || [];
    const at = backends.findIndex((one) => one.name === name);
    return `backend-${Math.max(0, at) % 6}`;
  }

  // Requests of the last frame: what runs, then the queue in its order.
  active() {
    const all = [];
    for (const seen of this.frame ? this.frame.requests : []) {
      const request = this.requests.get(seen.id);
      if (request && !request.ended) all.push(request);
    }
    const rank = (request) => {
      if (request.state === 'running') return -1;
      return request.position === null ? 1e9 : request.position;
    };
    return all.sort((a, b) => rank(a) - rank(b) || a.id - b.id);
  }

  recentlyEnded(most) {
    return this.ended.slice(-most).reverse();
  }
}

function makeRequest({id, tenant, class: its}, came) {
  const request = {
    id, tenant, class: its, state: '', phase: '', prompt: 0, cached: null, output: 0, chunks: 0,
    preemptions: 0, backend: '', moves: 0, position: null, came, events: [], ended: null,
    seen: came, lastRow: 0,
  };
  note(request, came, 'came', '');
  return request;
}

function preempt(request, at) {
  ++request.preemptions;
  request.wasPreempted = true;
  request.phase = 'preempted';
  note(request, at, 'preempted', '');
}

function note(request, at, what, detail) {
  request.events.push({at, what, detail});
  // The beginning and the newest are worth most.
  if (request.events.length > MOST_EVENTS) {
    request.events.splice(12, 1);
    request.eventsLeftOut = (request.eventsLeftOut || 0) + 1;
  }
}
