// Keeps chats in the browser: each under a key of its own, so that two tabs do not overwrite each
// other's, and an index of them. Bounded by kMaxChats and kMaxBytes: the chats that were used
// longest ago go.

const kIndex = 'ropeway-chats';
const kPrefix = 'ropeway-chat-';
const kMaxChats = 50;
const kMaxBytes = 2 * 1024 * 1024;

function isObject(value) {
  return typeof value === 'object' && value !== null;
}

// Whether what was kept has all that the page reads of a chat.
function isChat(value) {
  return isObject(value) && typeof value.title === 'string' && typeof value.system === 'string' &&
      isObject(value.settings) && Array.isArray(value.turns) && value.turns.every(isTurn);
}

function isTurn(turn) {
  return isObject(turn) && typeof turn.user === 'string' && isObject(turn.answers) &&
      Object.values(turn.answers).every(
          (answer) => isObject(answer) && typeof answer.text === 'string');
}

export class ChatStore {
  // `onNotice` gets a sentence for the reader when something is not kept. `storage` is null where
  // the browser keeps nothing: then chats live as long as the page.
  constructor(storage, onNotice) {
    this.storage = storage;
    this.onNotice = onNotice;
    this.memory = new Map();
    this.told = false;
  }

  // {id, title, used, bytes} of each chat, the last used first.
  index() {
    const kept = this.#read(kIndex);
    const list = Array.isArray(kept) ? kept : [];
    return list.filter((entry) => typeof entry?.id === 'string')
        .sort((a, b) => b.used - a.used);
  }

  // Null if there is none, or a damaged one: that goes from the list, too.
  load(id) {
    const chat = this.#read(kPrefix + id);
    if (isChat(chat)) return chat;
    this.remove(id);
    return null;
  }

  // Keeps a chat; the oldest make room for it.
  save(chat) {
    const text = JSON.stringify(chat);
    const bytes = new TextEncoder().encode(text).length;
    let list = this.index().filter((entry) => entry.id !== chat.id);
    if (bytes > kMaxBytes) {
      this.onNotice('This chat is larger than the 2 MB that are kept in the browser: ' +
          'what is new in it will be gone when you leave the page.');
      return;
    }
    list.unshift({id: chat.id, title: chat.title, used: chat.used, bytes});
    let sum = list.reduce((total, entry) => total + entry.bytes, 0);
    const gone = [];
    const drop = () => {
      const oldest = list.pop();
      sum -= oldest.bytes;
      gone.push(oldest.title);
      this.#remove(kPrefix + oldest.id);
    };
    while (list.length > kMaxChats || (sum > kMaxBytes && list.length > 1)) drop();
    while (!this.#write(kPrefix + chat.id, text) || !this.#write(kIndex, JSON.stringify(list))) {
      if (list.length <= 1) {
        this.#remove(kPrefix + chat.id);
        this.onNotice('The browser has no room left for this chat: ' +
            'it will be gone when you leave the page.');
        return;
      }
      drop();
    }
    if (gone.length > 0) {
      this.onNotice(`The browser keeps ${kMaxChats} chats and 2 MB of them. Removed to make room: ` +
          gone.map((title) => `“${title}”`).join(', ') + '.');
    }
  }

  remove(id) {
    this.#remove(kPrefix + id);
    this.#write(kIndex, JSON.stringify(this.index().filter((entry) => entry.id !== id)));
  }

  #read(key) {
    try {
      const text = this.storage === null ? this.memory.get(key) : this.storage.getItem(key);
      return text ? JSON.parse(text) : null;
    } catch {
      return null;
    }
  }

  #write(key, text) {
    if (this.storage === null) {
      this.memory.set(key, text);
      if (!this.told) {
        this.told = true;
        this.onNotice('This browser keeps no data for this page: ' +
            'chats will be gone when you leave it.');
      }
      return true;
    }
    try {
      this.storage.setItem(key, text);
      return true;
    } catch {
      return false;
    }
  }

  #remove(key) {
    if (this.storage === null) {
      this.memory.delete(key);
      return;
    }
    try {
      this.storage.removeItem(key);
    } catch {
      // What cannot be written cannot be kept either.
    }
  }
}

export function openStorage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
