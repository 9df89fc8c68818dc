// The part of markdown.js within a block: text to nodes, in time that is linear in its size.

const kMaxFrames = 32;
const kMaxUrl = 2048;

// The address of a link, or null where it is not one that may be followed.
export function safeUrl(text) {
  if (text.length > kMaxUrl || !/^https?:\/\//i.test(text)) return null;
  let url;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
}

const kEntities = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', '#39': "'"};

function isSpace(c) {
  return c === '' || /\s/.test(c);
}

function isBlank(text) {
  return text.trim() === '';
}

function isWord(c) {
  return c !== '' && /[\p{L}\p{N}_]/u.test(c);
}

// The part of a link after its ']': '(address "title")'. {url, end}, or null. Parentheses nest
// eight deep, so that a scan ends after a few of a text's '](' and all of them are linear.
function linkTarget(text, i) {
  if (text[i] !== '(') return null;
  i++;
  while (text[i] === ' ') i++;
  const from = i;
  let depth = 0;
  for (; i < text.length && i - from <= kMaxUrl; i++) {
    const c = text[i];
    if (c === ' ' || c === '\n' || c === '<' && i > from) break;
    if (c === '(') {
      depth++;
      if (depth > 8) return null;
    } else if (c === ')') {
      if (depth === 0) break;
      depth--;
    }
  }
  let url = text.slice(from, i);
  if (url.startsWith('<')) url = url.slice(1).replace(/>$/, '');
  while (text[i] === ' ') i++;
  if (text[i] === '"' || text[i] === "'") {
    const close = text.slice(i + 1, i + 300).indexOf(text[i]);
    if (close < 0) return null;
    i += close + 2;
    while (text[i] === ' ') i++;
  }
  return text[i] === ')' ? {url, end: i + 1} : null;
}

// The runs of backticks of a text: for each length the places where one begins, in order.
function backtickRuns(text) {
  const runs = new Map();
  for (let i = text.indexOf('`'); i >= 0; i = text.indexOf('`', i)) {
    const from = i;
    while (text[i] === '`') i++;
    if (!runs.has(i - from)) runs.set(i - from, {at: [], next: 0});
    runs.get(i - from).at.push(from);
  }
  return runs;
}

const kTags = {'*1': 'em', '*2': 'strong', '_1': 'em', '_2': 'strong', '~2': 'del'};

// Renders a text within a block. Open brackets and emphases are frames of a stack, each with the
// nodes since its mark; a frame that is never closed is its mark as text, and its nodes.
class Inline {
  constructor(doc, text) {
    this.doc = doc;
    this.text = text;
    this.frames = [{mark: '', count: 0, nodes: []}];
    this.plain = '';
  }

  flush() {
    if (this.plain === '') return;
    this.frames[this.frames.length - 1].nodes.push(this.doc.createTextNode(this.plain));
    this.plain = '';
  }

  add(node) {
    this.flush();
    this.frames[this.frames.length - 1].nodes.push(node);
  }

  open(mark, count, source, both) {
    if (this.frames.length > kMaxFrames) {
      this.plain += source;
      return;
    }
    this.flush();
    this.frames.push({mark, count, whole: count, source, both, nodes: []});
  }

  // Makes the frames above `index` part of it: their marks become text.
  flatten(index) {
    this.flush();
    const into = this.frames[index].nodes;
    for (const frame of this.frames.splice(index + 1)) {
      const mark = frame.mark === '[' ? frame.source : frame.mark.repeat(frame.count);
      if (mark !== '') into.push(this.doc.createTextNode(mark));
      for (const node of frame.nodes) into.push(node);
    }
  }

  element(tag, nodes) {
    const element = this.doc.createElement(tag);
    for (const node of nodes) element.appendChild(node);
    return element;
  }

  link(url, nodes) {
    const a = this.element('a', nodes);
    a.setAttribute('href', url);
    a.setAttribute('rel', 'noopener noreferrer');
    a.setAttribute('target', '_blank');
    a.setAttribute('title', url);
    return a;
  }

  // Closes emphases by a run of `count` marks; returns how many marks are left. A run that could
  // open as well is held to CommonMark's rule of three, by which '*a**b*' is one emphasis.
  close(mark, count, both) {
    const whole = count;
    const fits = (frame) => frame.mark === mark &&
        !((both || frame.both) && (frame.whole + whole) % 3 === 0 && whole % 3 !== 0);
    while (count > 0) {
      let index = this.frames.length - 1;
      while (index > 0 && !fits(this.frames[index])) index--;
      if (index === 0) return count;
      const frame = this.frames[index];
      const use = Math.min(frame.count, count, 2);
      const tag = kTags[mark + use];
      if (tag === undefined) return count;
      this.flatten(index);
      const element = this.element(tag, frame.nodes);
      frame.count -= use;
      count -= use;
      if (frame.count > 0) {
        frame.nodes = [element];
      } else {
        this.frames.pop();
        this.frames[this.frames.length - 1].nodes.push(element);
      }
    }
    return 0;
  }

  emphasis(i) {
    const {text} = this;
    const mark = text[i];
    let end = i;
    while (text[end] === mark) end++;
    const count = end - i;
    const before = text[i - 1] ?? '';
    const after = text[end] ?? '';
    if (count > 3 || (mark === '~' && count !== 2)) {
      this.plain += text.slice(i, end);
      return end;
    }
    const canOpen = !isSpace(after) && !(mark === '_' && isWord(before));
    const canClose = !isSpace(before) && !(mark === '_' && isWord(after));
    let left = count;
    if (canClose) left = this.close(mark, left, canOpen);
    if (left > 0) {
      if (canOpen) {
        this.open(mark, left, mark.repeat(left), canOpen && canClose);
      } else {
        this.plain += mark.repeat(left);
      }
    }
    return end;
  }

  // At a ']': the end of a link or an image, or a bracket of the text.
  bracket(i) {
    let index = this.frames.length - 1;
    while (index > 0 && this.frames[index].mark !== '[') index--;
    if (index === 0) {
      this.plain += ']';
      return i + 1;
    }
    const frame = this.frames[index];
    const target = linkTarget(this.text, i + 1);
    const url = target === null ? null : safeUrl(target.url);
    this.flatten(index);
    this.frames.pop();
    if (url === null) {
      const into = this.frames[this.frames.length - 1].nodes;
      into.push(this.doc.createTextNode(frame.source));
      for (const node of frame.nodes) into.push(node);
      this.plain += ']';
      // What would be a link's address is text, and nothing in it is a link.
      if (target === null) return i + 1;
      this.plain += this.text.slice(i + 1, target.end);
      return target.end;
    }
    if (frame.nodes.length === 0) frame.nodes.push(this.doc.createTextNode(url));
    // Links do not hold links: the brackets around this one are text.
    for (const outer of this.frames) {
      if (outer.mark === '[') outer.mark = 'no link';
    }
    for (let k = this.frames.length - 1; k > 0; k--) {
      if (this.frames[k].mark === 'no link') this.unwrap(k);
    }
    this.add(this.link(url, frame.nodes));
    return target.end;
  }

  // Makes one frame of the stack text of the frame below it.
  unwrap(index) {
    const [frame] = this.frames.splice(index, 1);
    const into = this.frames[index - 1].nodes;
    into.push(this.doc.createTextNode(frame.source));
    for (const node of frame.nodes) into.push(node);
  }

  // A web address that stands in the text by itself.
  bareUrl(i) {
    const found = /^https?:\/\/[^\s<>"`\\^{|}\]*]+/i.exec(this.text.slice(i, i + kMaxUrl));
    if (found === null) return 0;
    let end = found[0].length;
    while (".,:;!?'_~".includes(found[0][end - 1])) end--;
    if (found[0][end - 1] === ')' && !found[0].includes('(')) end--;
    const address = found[0].slice(0, end);
    const url = safeUrl(address);
    if (url === null) {
      this.plain += address;
    } else {
      this.add(this.link(url, [this.doc.createTextNode(address)]));
    }
    return end;
  }

  run() {
    const {text, doc} = this;
    const runs = backtickRuns(text);
    const special = /[\\`*_~[\]!&<\n]|https?:\/\//gi;
    let i = 0;
    while (i < text.length) {
      special.lastIndex = i;
      const found = special.exec(text);
      const at = found === null ? text.length : found.index;
      if (at > i) this.plain += text.slice(i, at);
      if (found === null) break;
      i = at;
      const c = text[i];
      if (c === '\\' && i + 1 < text.length && /[!-/:-@[-`{-~]/.test(text[i + 1])) {
        this.plain += text[i + 1];
        i += 2;
      } else if (c === '`') {
        i = this.code(i, runs);
      } else if (c === '*' || c === '_' || c === '~') {
        i = this.emphasis(i);
      } else if (c === '[' || (c === '!' && text[i + 1] === '[')) {
        const source = c === '[' ? '[' : '![';
        this.open('[', 1, source, false);
        i += source.length;
      } else if (c === ']') {
        i = this.bracket(i);
      } else if (c === '&') {
        const m = /^&(#?\w{1,6});/.exec(text.slice(i, i + 9));
        const value = m === null ? undefined : kEntities[m[1]];
        this.plain += value ?? '&';
        i += value === undefined ? 1 : m[0].length;
      } else if (c === '\n' || (c === '\\' && text[i + 1] === '\n')) {
        this.plain = this.plain.trimEnd();
        this.add(doc.createElement('br'));
        i += c === '\n' ? 1 : 2;
      } else if (c === '<') {
        const m = /^<(https?:\/\/[^\s<>]+)>/i.exec(text.slice(i, i + kMaxUrl));
        const url = m === null ? null : safeUrl(m[1]);
        if (url === null) {
          this.plain += '<';
          i++;
        } else {
          this.add(this.link(url, [doc.createTextNode(m[1])]));
          i += m[0].length;
        }
      } else if (found[0].length > 1 && !isWord(text[i - 1] ?? '') && !this.inBracket()) {
        const length = this.bareUrl(i);
        if (length === 0) this.plain += c;
        i += Math.max(length, 1);
      } else {
        this.plain += c;
        i++;
      }
    }
    this.flatten(0);
    return this.frames[0].nodes;
  }

  // Whether a bracket is open: an address within it is the text of its link.
  inBracket() {
    return this.frames.some((frame) => frame.mark === '[');
  }

  code(i, runs) {
    const {text} = this;
    let end = i;
    while (text[end] === '`') end++;
    const same = runs.get(end - i);
    if (same !== undefined) {
      while (same.next < same.at.length && same.at[same.next] < end) same.next++;
      if (same.next < same.at.length) {
        const close = same.at[same.next];
        let body = text.slice(end, close).replace(/\n/g, ' ');
        if (body.startsWith(' ') && body.endsWith(' ') && !isBlank(body)) body = body.slice(1, -1);
        const element = this.doc.createElement('code');
        element.textContent = body;
        this.add(element);
        return close + (end - i);
      }
    }
    this.plain += text.slice(i, end);
    return end;
  }
}

// Appends what a block's text shows: emphases, code, links and line breaks.
export function appendInline(doc, parent, text) {
  for (const node of new Inline(doc, text).run()) parent.appendChild(node);
}
