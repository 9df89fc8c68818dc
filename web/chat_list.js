// The list of chats: open, rename and delete one.

import {make, makeButton} from './chat_view.js';

export class ChatList {
  // `on` has open(id), rename(id, title) and remove(id).
  constructor(root, store, on) {
    this.root = root;
    this.store = store;
    this.on = on;
  }

  // Shows the kept chats; `current` is the id of the open one.
  show(current) {
    const items = this.store.index().map((entry) => this.#item(entry, entry.id === current));
    if (items.length === 0) items.push(make('li', 'muted side-none', 'None yet.'));
    // The focus stays on the control that it is on, in the list that takes this one's place.
    const focused = document.activeElement;
    const key = this.root.contains(focused) ? focused.dataset.key : undefined;
    this.root.replaceChildren(...items);
    if (key === undefined) return;
    for (const control of this.root.querySelectorAll('[data-key]')) {
      if (control.dataset.key === key) control.focus();
    }
  }

  #item(entry, current) {
    const item = make('li', 'chat-item');
    const open = makeButton(entry.title, 'quiet chat-open', () => this.on.open(entry.id));
    open.title = entry.title;
    open.dataset.key = `open ${entry.id}`;
    if (current) open.setAttribute('aria-current', 'true');
    const rename = makeButton('✎', 'quiet chat-act', () => this.#rename(item, entry));
    rename.setAttribute('aria-label', `Rename ${entry.title}`);
    rename.title = 'Rename';
    const remove = makeButton('×', 'quiet chat-act', () => this.on.remove(entry.id));
    remove.setAttribute('aria-label', `Delete ${entry.title}`);
    remove.title = 'Delete';
    item.append(open, rename, remove);
    return item;
  }

  #rename(item, entry) {
    const form = make('form', 'rename');
    const field = make('input');
    field.type = 'text';
    field.value = entry.title;
    field.maxLength = 100;
    field.setAttribute('aria-label', 'Title of the chat');
    let done = false;
    const finish = (title) => {
      if (done) return;
      done = true;
      this.on.rename(entry.id, title.trim() === '' ? entry.title : title.trim());
      for (const control of this.root.querySelectorAll('[data-key]')) {
        if (control.dataset.key === `open ${entry.id}`) control.focus();
      }
    };
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      finish(field.value);
    });
    field.addEventListener('blur', () => finish(field.value));
    field.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      finish(entry.title);
    });
    form.append(field);
    item.replaceChildren(form);
    field.focus();
    field.select();
  }
}
