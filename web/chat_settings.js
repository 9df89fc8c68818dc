// The settings of a pane: which model, class and sampling its prompts are sent with.

import {make} from './chat_view.js';

export function defaultSettings() {
  return {model: '', priority: '', temperature: '', topP: '', maxTokens: '1024', seed: '',
    thinking: ''};
}

const kNumbers = [
  {name: 'temperature', id: 'temperature', label: 'Temperature', min: 0, max: 2, step: 0.1,
    help: '0 always takes the most probable token'},
  {name: 'topP', id: 'top-p', label: 'Top p', min: 0, max: 1, step: 0.05,
    help: 'Keep the most probable tokens that reach this sum'},
  {name: 'maxTokens', id: 'max-tokens', label: 'Max tokens', min: 1, max: 1e9, step: 1,
    help: 'The most tokens of an answer; empty: what the context leaves'},
];

// The fields of one pane, within a <details> whose summary says what is set.
export class SettingsView {
  // `suffix` ends the ids of the fields. `onChange` is called when the reader changes one.
  constructor(root, suffix, onChange) {
    this.root = root;
    this.suffix = suffix;
    this.fields = new Map();
    this.settings = defaultSettings();
    const summary = make('summary');
    this.line = make('span', 'muted settings-line');
    summary.append(make('span', 'settings-name', 'Settings'), ' ', this.line);
    this.grid = make('div', 'settings-grid');
    root.replaceChildren(summary, this.grid);

    this.#select('model', 'model', 'Model', [['', 'the first']]);
    this.#select('priority', 'priority', 'Class', [['', 'default'], ['high', 'high'],
      ['medium', 'medium'], ['low', 'low']]);
    for (const number of kNumbers) {
      const input = make('input');
      input.type = 'number';
      input.min = number.min;
      input.max = number.max;
      input.step = 'any';
      input.inputMode = 'decimal';
      input.placeholder = number.name === 'maxTokens' ? 'no limit' : 'default';
      input.title = number.help;
      this.#field(number.name, number.id, number.label, input);
    }
    const seed = make('input');
    seed.type = 'text';
    seed.inputMode = 'numeric';
    seed.pattern = '-?[0-9]{1,20}';
    seed.placeholder = 'drawn';
    seed.title = 'The same request with the same seed gives the same answer';
    this.#field('seed', 'seed', 'Seed', seed);
    // Only the first model's template could be asked for such a switch, and of a gateway's not even
    // that, so it is always here. Others pass it over.
    this.#select('thinking', 'thinking', 'Thinking', [['', 'default'], ['on', 'on'],
      ['off', 'off']]);
    this.fields.get('thinking').title = 'For models whose chat template has such a switch';
    this.grid.addEventListener('input', () => {
      this.#read();
      onChange();
    });
  }

  #field(name, id, label, control) {
    const box = make('div', 'field');
    control.id = id + this.suffix;
    const text = make('label', '', label);
    text.htmlFor = control.id;
    box.append(text, control);
    this.grid.append(box);
    this.fields.set(name, control);
  }

  #select(name, id, label, options) {
    const select = make('select');
    for (const [value, text] of options) {
      const option = make('option', '', text);
      option.value = value;
      select.append(option);
    }
    this.#field(name, id, label, select);
  }

  showModels(models) {
    const select = this.fields.get('model');
    select.replaceChildren(...models.map((model) => {
      const option = make('option', '', model);
      option.value = model;
      return option;
    }));
    if (!models.includes(this.settings.model)) this.settings.model = models[0] ?? '';
    select.value = this.settings.model;
    this.#line();
  }

  // Shows the settings of a chat, which are changed in place from now on.
  show(settings) {
    this.settings = settings;
    for (const [name, control] of this.fields) control.value = settings[name] ?? '';
    const select = this.fields.get('model');
    if (select.selectedIndex < 0 && select.options.length > 0) {
      select.selectedIndex = 0;
      settings.model = select.value;
    }
    this.#line();
  }

  #read() {
    for (const [name, control] of this.fields) this.settings[name] = control.value.trim();
    this.#line();
  }

  // The first field whose value cannot be sent, which gets the focus. Null if there is none.
  invalid() {
    for (const [name, control] of this.fields) {
      if (control.checkValidity()) continue;
      this.root.open = true;
      control.focus();
      const label = control.parentElement.firstChild.textContent;
      if (name === 'seed') return `${label} must be a whole number.`;
      return `${label} must be a number from ${control.min} to ${control.max}, or empty.`;
    }
    return null;
  }

  #line() {
    const {settings} = this;
    const parts = [];
    if (settings.model !== '') parts.push(settings.model);
    if (settings.priority !== '') parts.push(settings.priority);
    if (settings.temperature !== '') parts.push(`temperature ${settings.temperature}`);
    if (settings.topP !== '') parts.push(`top p ${settings.topP}`);
    if (settings.seed !== '') parts.push(`seed ${settings.seed}`);
    this.line.textContent = parts.join(' · ');
  }
}
