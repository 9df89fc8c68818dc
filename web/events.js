// Reads /admin/events. EventSource cannot send a key, so this is fetch and a reader of its stream.

const KEY_NAME = 'ropeway-admin-key';
const PAUSES = [1, 2, 4, 8, 15, 30];  // Seconds before the next try.
const SILENCE_MS = 15000;  // A frame comes each second, so this is a dead connection.
const MOST_PENDING = 16 * 1024 * 1024;  // Characters of one event.

export function storedKey() {
  try {
    return sessionStorage.getItem(KEY_NAME) || '';
  } catch {
    return '';  // Storage may be forbidden.
  }
}

function storeKey(key) {
  try {
    if (key) {
      sessionStorage.setItem(KEY_NAME, key);
    } else {
      sessionStorage.removeItem(KEY_NAME);
    }
  } catch {
    // Then the key lives as long as the page.
  }
}

// The connection failed, which is no fault of this page.
class Lost extends Error {}

function orLost(promise) {
  return promise.catch(() => {
    throw new Lost();
  });
}

// Splits a text stream into events. Calls each(name, data).
export class EventSplitter {
  constructor(each) {
    this.each = each;
    this.pending = '';
  }

  push(text) {
    this.pending += text;
    if (this.pending.length > MOST_PENDING) throw new Error('an event is too long');
    let end;
    let from = 0;
    while ((end = this.pending.indexOf('\n\n', from)) >= 0) {
      this.take(this.pending.slice(from, end));
      from = end + 2;
    }
    if (from > 0) this.pending = this.pending.slice(from);
  }

  take(block) {
    let name = 'message';
    const data = [];
    for (const line of block.split('\n')) {
      if (line.startsWith('event:')) name = line.slice(6).trim();
      if (line.startsWith('data:')) data.push(line.slice(5).trim());
    }
    if (data.length > 0) this.each(name, data.join('\n'));
  }
}

// The server's own words about a refusal, or ''.
async function messageOf(response) {
  try {
    const body = await response.json();
    return typeof body.error.message === 'string' ? body.error.message.slice(0, 300) : '';
  } catch {
    return '';
  }
}

// Watches until stop(). onState gets {kind, text, seconds}, where kind is
//   connecting, live, lost (the next try is in `seconds`), busy (429, also tried again),
//   key (a key is needed; nothing is tried until setKey), wrong-key (the same, after a refusal).
export function watch({onHello, onFrame, onState, key = storedKey()}) {
  let current = key;
  let failures = 0;
  let stopped = false;
  let timer = 0;
  let abort = null;

  function later(kind, text) {
    const seconds = PAUSES[Math.min(failures, PAUSES.length - 1)];
    ++failures;
    onState({kind, text, seconds});
    timer = setTimeout(connect, seconds * 1000);
  }

  async function refused(response) {
    const message = await messageOf(response);
    if (response.status === 401 || response.status === 403) {
      const wrong = current !== '';
      current = '';
      storeKey('');
      // The words of a 401 say no more than that.
      const text = response.status === 403 ? message : '';
      onState({kind: wrong ? 'wrong-key' : 'key', text, seconds: 0});
    } else if (response.status === 429) {
      later('busy', message || 'Too many pages watch this server.');
    } else {
      later('lost', `The server answered ${response.status}.`);
    }
  }

  function take(name, data) {
    const value = JSON.parse(data);
    if (name === 'hello') {
      failures = 0;
      if (current) storeKey(current);
      onState({kind: 'live', text: '', seconds: 0});
      onHello(value);
    } else if (name === 'frame') {
      onFrame(value);
    }
  }

  async function read(response, mine) {
    const splitter = new EventSplitter((name, data) => {
      if (mine.signal.aborted) return;
      try {
        take(name, data);
      } catch (error) {
        console.error(`An event "${name}" could not be shown:`, error);  // The next one may be.
      }
    });
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let watchdog = 0;
    try {
      for (;;) {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => mine.abort(), SILENCE_MS);
        const {done, value} = await orLost(reader.read());
        if (done) return;
        splitter.push(decoder.decode(value, {stream: true}));
      }
    } finally {
      clearTimeout(watchdog);
      reader.cancel().catch(() => {});
    }
  }

  async function connect() {
    clearTimeout(timer);
    if (abort) abort.abort();
    const mine = new AbortController();
    abort = mine;
    onState({kind: 'connecting', text: '', seconds: 0});
    // A server that accepts and says nothing is lost, too.
    const patience = setTimeout(() => mine.abort(), SILENCE_MS);
    try {
      const headers = {Accept: 'text/event-stream'};
      if (current) headers.Authorization = `Bearer ${current}`;
      const response = await orLost(fetch('/admin/events', {
        headers, signal: mine.signal, cache: 'no-store', credentials: 'omit',
      }));
      clearTimeout(patience);
      if (!response.ok) {
        await refused(response);
        return;
      }
      await read(response, mine);
    } catch (error) {
      if (!(error instanceof Lost)) console.error(error);
    } finally {
      clearTimeout(patience);
    }
    if (!stopped && abort === mine) later('lost', 'The connection is lost.');
  }

  connect();
  return {
    setKey(text) {
      const trimmed = text.trim();
      // Anything else cannot be in a header.
      if (!/^[\x21-\x7e]+$/.test(trimmed)) {
        onState({kind: 'wrong-key', text: '', seconds: 0});
        return;
      }
      current = trimmed;
      failures = 0;
      connect();
    },
    forgetKey() {
      current = '';
      storeKey('');
      failures = 0;
      connect();
    },
    retry() {
      failures = 0;
      connect();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      if (abort) abort.abort();
    },
  };
}
