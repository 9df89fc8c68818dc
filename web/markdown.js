// Shows a model's Markdown as DOM nodes. The text is untrusted: nodes are made by createElement and
// createTextNode alone, so HTML in it stays text; a link is one only if it is http or https; and an
// image becomes a link, because fetching it would tell its server who reads the answer.
//
// A page renders a growing answer many times, so the work is linear in the text's size: what nests
// is bounded (kMaxDepth here, kMaxFrames in markdown_inline.js), and marks beyond that are text.
//
// The dialect is that of answers, which is CommonMark with GFM's tables, but: a newline breaks the
// line, indented text is no code, and a list's item takes every line that is indented beyond its
// mark, since models are careless about how far.

import {appendInline} from './markdown_inline.js';

const kMaxDepth = 12;
const kMaxColumns = 64;

const kFence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?:[ \t]+([^]*))?$/;
const kRule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const kQuote = /^ {0,3}>/;
const kItem = /^( *)([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;

function isBlank(line) {
  return line.trim() === '';
}

// The column of a line's first character that is no space.
function indentOf(line) {
  let n = 0;
  while (n < line.length && line[n] === ' ') n++;
  return n;
}

// `line` is a rule by its first characters, so that a megabyte of stars is looked at once.
function isRule(line) {
  return line.length < 1000 && kRule.test(line);
}

function isItem(line) {
  return kItem.test(line) && !isRule(line);
}

// Whether a line ends the paragraph before it.
function startsBlock(line) {
  return kFence.test(line) || kHeading.test(line) || kQuote.test(line) || isRule(line) ||
      isItem(line);
}

function splitRow(line) {
  const cells = [];
  let cell = '';
  let from = 0;
  const text = line.trim();
  let inCode = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '\\' && text[i + 1] === '|') {
      cell += text.slice(from, i) + '|';
      from = i + 2;
      i++;
    } else if (text[i] === '`') {
      inCode = !inCode && text.indexOf('`', i + 1) > 0;
    } else if (text[i] === '|' && !inCode) {
      cells.push(cell + text.slice(from, i));
      cell = '';
      from = i + 1;
    }
  }
  cells.push(cell + text.slice(from));
  if (text.startsWith('|')) cells.shift();
  if (text.endsWith('|') && cells.length > 0 && isBlank(cells[cells.length - 1])) cells.pop();
  return cells;
}

// A table's head and alignments, if one begins at lines[i].
function tableAt(lines, i) {
  if (i + 1 >= lines.length || !lines[i].includes('|') || lines[i].length > 16384) return null;
  const rule = lines[i + 1];
  if (rule.length > 4096 || !rule.includes('-') || /[^-:| ]/.test(rule)) return null;
  const head = splitRow(lines[i]);
  const marks = splitRow(rule).map((mark) => mark.trim());
  if (head.length !== marks.length || head.length === 0 || head.length > kMaxColumns) return null;
  if (!marks.every((mark) => /^:?-+:?$/.test(mark))) return null;
  const align = marks.map((mark) => {
    if (mark.endsWith(':')) return mark.startsWith(':') ? 'center' : 'right';
    return '';
  });
  return {head, align};
}

// Splits lines into blocks {type, from, to, ...}; lines[from, to) are the block's own.
function parseBlocks(lines, depth) {
  const blocks = [];
  let i = 0;
  const add = (from, block) => {
    block.from = from;
    block.to = i;
    blocks.push(block);
  };
  while (i < lines.length) {
    const from = i;
    const line = lines[i];
    let m;
    if (isBlank(line)) {
      i++;
    } else if ((m = kFence.exec(line)) !== null) {
      // A fence that nobody closes goes on to the end, as it does while it streams.
      const mark = m[1];
      const indent = indentOf(line);
      const body = [];
      for (i++; i < lines.length; i++) {
        const t = lines[i].trim();
        if (t.length >= mark.length && t[0] === mark[0] && indentOf(lines[i]) < 4 + indent &&
            isRunOf(t, mark[0])) {
          break;
        }
        body.push(lines[i].slice(Math.min(indent, indentOf(lines[i]))));
      }
      i = Math.min(i + 1, lines.length);
      add(from, {type: 'code', language: m[2].trim().split(/\s/, 1)[0].slice(0, 40), body});
    } else if ((m = kHeading.exec(line)) !== null) {
      i++;
      add(from, {type: 'heading', level: m[1].length, text: trimHashes((m[2] ?? '').trim())});
    } else if (isRule(line)) {
      i++;
      add(from, {type: 'rule'});
    } else if (depth < kMaxDepth && kQuote.test(line)) {
      const inner = [];
      while (i < lines.length && !isBlank(lines[i]) &&
             (kQuote.test(lines[i]) || !startsBlock(lines[i]))) {
        inner.push(lines[i].replace(/^ {0,3}> ?/, ''));
        i++;
      }
      add(from, {type: 'quote', blocks: parseBlocks(inner, depth + 1)});
    } else if (depth < kMaxDepth && isItem(line)) {
      const list = parseList(lines, i, depth);
      i = list.to;
      add(from, list);
    } else {
      const table = tableAt(lines, i);
      if (table !== null) {
        const rows = [];
        for (i += 2; i < lines.length && !isBlank(lines[i]) && !startsBlock(lines[i]); i++) {
          rows.push(splitRow(lines[i]).slice(0, table.head.length));
        }
        add(from, {type: 'table', head: table.head, align: table.align, rows});
      } else {
        i++;
        while (i < lines.length && !isBlank(lines[i]) && !startsBlock(lines[i]) &&
               tableAt(lines, i) === null) {
          i++;
        }
        add(from, {type: 'paragraph', text: lines.slice(from, i).map(trimStart).join('\n')});
      }
    }
  }
  return blocks;
}

function trimStart(line) {
  return line.trimStart();
}

function isRunOf(text, mark) {
  for (const c of text) {
    if (c !== mark) return false;
  }
  return true;
}

// A heading may end in hashes, which are not of its text.
function trimHashes(text) {
  let end = text.length;
  while (end > 0 && text[end - 1] === '#') end--;
  if (end === text.length || (end > 0 && text[end - 1] !== ' ')) return text;
  return text.slice(0, end).trimEnd();
}

// The list at lines[i], whose items have the same kind of mark: bullets or numbers.
function parseList(lines, i, depth) {
  const first = kItem.exec(lines[i]);
  const ordered = first[2].length > 1;
  const base = first[1].length;
  const list = {type: 'list', ordered, start: ordered ? parseInt(first[2], 10) : 1, items: [],
    loose: false};
  while (i < lines.length) {
    const m = kItem.exec(lines[i]);
    if (m === null || isRule(lines[i]) || (m[2].length > 1) !== ordered || m[1].length > base + 1 ||
        (m[1].length < base && list.items.length > 0)) {
      break;
    }
    const markEnd = m[0].length;
    const rest = lines[i].slice(markEnd);
    const content = markEnd + Math.min(Math.max(indentOf(rest), 1), 4);
    const inner = [rest.trimStart()];
    let blank = false;
    for (i++; i < lines.length; i++) {
      const line = lines[i];
      if (isBlank(line)) {
        blank = true;
        inner.push('');
        continue;
      }
      const indent = indentOf(line);
      if (indent > m[1].length + 1 || (indent > m[1].length && !isItem(line))) {
        inner.push(line.slice(Math.min(indent, content)));
      } else if (!blank && !startsBlock(line)) {
        inner.push(line);  // A paragraph goes on without being indented.
      } else {
        break;
      }
      blank = false;
    }
    while (inner.length > 1 && inner[inner.length - 1] === '') inner.pop();
    const more = i < lines.length && isItem(lines[i]);
    if (blank && more) list.loose = true;
    list.items.push(parseBlocks(inner, depth + 1));
  }
  list.to = i;
  return list;
}

function codeBlock(doc, block) {
  const box = doc.createElement('div');
  box.className = 'code-block';
  const bar = doc.createElement('div');
  bar.className = 'code-bar';
  const language = doc.createElement('span');
  language.textContent = block.language === '' ? 'code' : block.language;
  const copy = doc.createElement('button');
  copy.className = 'copy-code';
  copy.setAttribute('type', 'button');
  copy.textContent = 'Copy code';
  bar.appendChild(language);
  bar.appendChild(copy);
  const pre = doc.createElement('pre');
  pre.setAttribute('tabindex', '0');
  const code = doc.createElement('code');
  code.textContent = block.body.join('\n');
  pre.appendChild(code);
  box.appendChild(bar);
  box.appendChild(pre);
  return box;
}

function tableBlock(doc, block) {
  const box = doc.createElement('div');
  box.className = 'table-box';
  box.setAttribute('tabindex', '0');
  const table = doc.createElement('table');
  const row = (cells, tag, parent) => {
    const tr = doc.createElement('tr');
    cells.forEach((text, column) => {
      const cell = doc.createElement(tag);
      if (block.align[column] !== '') cell.className = block.align[column];
      appendInline(doc, cell, text.trim());
      tr.appendChild(cell);
    });
    parent.appendChild(tr);
  };
  const head = doc.createElement('thead');
  row(block.head, 'th', head);
  table.appendChild(head);
  const body = doc.createElement('tbody');
  for (const cells of block.rows) row(cells, 'td', body);
  table.appendChild(body);
  box.appendChild(table);
  return box;
}

function listBlock(doc, block) {
  const list = doc.createElement(block.ordered ? 'ol' : 'ul');
  if (block.ordered && block.start !== 1) list.setAttribute('start', String(block.start));
  for (const item of block.items) {
    const li = doc.createElement('li');
    for (const inner of item) {
      if (inner.type !== 'paragraph') {
        li.appendChild(blockNode(doc, inner));
        continue;
      }
      const task = /^\[([ xX])\] /.exec(inner.text);
      const mark = task === null ? '' : (task[1] === ' ' ? '\u2610 ' : '\u2611 ');
      const text = task === null ? inner.text : mark + inner.text.slice(4);
      const parent = block.loose || item.length > 1 && inner !== item[0] ?
          li.appendChild(doc.createElement('p')) : li;
      appendInline(doc, parent, text);
    }
    list.appendChild(li);
  }
  return list;
}

function blockNode(doc, block) {
  switch (block.type) {
    case 'code':
      return codeBlock(doc, block);
    case 'table':
      return tableBlock(doc, block);
    case 'list':
      return listBlock(doc, block);
    case 'rule':
      return doc.createElement('hr');
    case 'quote': {
      const quote = doc.createElement('blockquote');
      for (const inner of block.blocks) quote.appendChild(blockNode(doc, inner));
      return quote;
    }
    case 'heading': {
      // The page's own headings are the first two levels.
      const heading = doc.createElement('h' + Math.min(block.level + 2, 6));
      appendInline(doc, heading, block.text);
      return heading;
    }
    default: {
      const p = doc.createElement('p');
      appendInline(doc, p, block.text);
      return p;
    }
  }
}

// The lines of a text. Tabs that indent are spaces, but not in code, which is copied with its tabs.
function linesOf(text) {
  let inFence = false;
  return text.replace(/\r\n?/g, '\n').split('\n').map((line) => {
    const fence = /^[ \t>]*(?:`{3}|~{3})/.test(line);
    if (fence) inFence = !inFence;
    if (inFence || !line.includes('\t')) return line;
    const start = line.length - line.trimStart().length;
    return line.slice(0, start).replace(/\t/g, '    ') + line.slice(start).replace(/\t/g, ' ');
  });
}

// Shows `text` in `parent`. Blocks that are as they were at the last call keep their nodes, so that
// what a reader has selected or scrolled in a growing answer stays.
export function render(parent, text, doc = document) {
  const lines = linesOf(text);
  const blocks = parseBlocks(lines, 0);
  const sources = blocks.map((block) => lines.slice(block.from, block.to).join('\n'));
  const old = parent.markdownSources ?? [];
  let same = 0;
  while (same < old.length && same < sources.length && old[same] === sources[same]) same++;
  while (parent.childNodes.length > same) parent.removeChild(parent.lastChild);
  for (const block of blocks.slice(same)) parent.appendChild(blockNode(doc, block));
  parent.markdownSources = sources;
}
