// Tests web/markdown.js in node with a DOM of forty lines, which knows no way to take text as HTML.

import assert from 'node:assert/strict';
import test from 'node:test';

import {render} from '../web/markdown.js';
import {safeUrl} from '../web/markdown_inline.js';

class Node {
  constructor(tag, text) {
    this.tag = tag;
    this.text = text;
    this.childNodes = [];
    this.attributes = {};
  }
  get lastChild() {
    return this.childNodes[this.childNodes.length - 1];
  }
  appendChild(child) {
    assert.ok(child instanceof Node);
    this.childNodes.push(child);
    return child;
  }
  removeChild(child) {
    assert.equal(this.childNodes.pop(), child);
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  set className(value) {
    this.attributes.class = value;
  }
  set textContent(text) {
    this.childNodes = [new Node(null, text)];
  }
  get textContent() {
    return this.tag === null ? this.text : this.childNodes.map((c) => c.textContent).join('');
  }
}
const doc = {
  createElement: (tag) => new Node(tag, ''),
  createTextNode: (text) => new Node(null, text),
};

function show(text) {
  const root = new Node('root', '');
  render(root, text, doc);
  return root;
}

// The tree in brief: tags, href and start, and texts; neighbouring texts are one.
function brief(node) {
  if (node.tag === null) return node.text;
  const inner = node.childNodes.map(brief).join('');
  if (node.tag === 'root') return inner;
  const {href, start} = node.attributes;
  const shown = (href === undefined ? '' : ' ' + href) + (start === undefined ? '' : ' ' + start);
  return `<${node.tag}${shown}>${inner}</${node.tag}>`;
}

function all(node, found = []) {
  for (const child of node.childNodes) {
    found.push(child);
    all(child, found);
  }
  return found;
}

const kCases = [
  ['paragraphs', 'one\ntwo\n\nthree', '<p>one<br></br>two</p><p>three</p>'],
  ['headings', '# A\n### B ##\n####### C', '<h3>A</h3><h5>B</h5><p>####### C</p>'],
  ['emphasis', '*a* **b** ***c*** _d_ ~~e~~',
    '<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <em>d</em> <del>e</del></p>'],
  ['emphasis around a bracket', '**[0, 1)** x', '<p><strong>[0, 1)</strong> x</p>'],
  ['the rule of three', '*a**b*', '<p><em>a**b</em></p>'],
  ['no emphasis', 'a * b snake_case_name 2 ** 3 *', '<p>a * b snake_case_name 2 ** 3 *</p>'],
  ['unclosed emphasis', '**a *b', '<p>**a *b</p>'],
  ['escapes', '\\*a\\* \\[b\\] &lt;c&gt; &bad;', '<p>*a* [b] <c> &bad;</p>'],
  ['code', 'a `b*c*` ``d`e`` `f', '<p>a <code>b*c*</code> <code>d`e</code> `f</p>'],
  ['a rule', 'a\n\n---\n* * *', '<p>a</p><hr></hr><hr></hr>'],
  ['a quote', '> a\n> > b\nc', '<blockquote><p>a</p><blockquote><p>b<br></br>c</p></blockquote></blockquote>'],
  ['a list', '- a\n- b\n  - c\n    d\n- e',
    '<ul><li>a</li><li>b<ul><li>c<br></br>d</li></ul></li><li>e</li></ul>'],
  ['a list of numbers', '3. a\n   - b\n4. c', '<ol 3><li>a<ul><li>b</li></ul></li><li>c</li></ol>'],
  ['a list indented by two', '1. a\n  - b\n2. c', '<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>'],
  ['a loose list', '- a\n\n- b', '<ul><li><p>a</p></li><li><p>b</p></li></ul>'],
  ['tasks', '- [ ] a\n- [x] b', '<ul><li>\u2610 a</li><li>\u2611 b</li></ul>'],
  ['a link', '[a *b*](https://x.org/y "t")', '<p><a https://x.org/y>a <em>b</em></a></p>'],
  ['a link in a link', '[a [b](http://x.org) c](http://y.org)',
    '<p>[a <a http://x.org/>b</a> c](<a http://y.org/>http://y.org</a>)</p>'],
  ['parentheses in an address', '[a](http://x.org/(b))', '<p><a http://x.org/(b)>a</a></p>'],
  ['an image is a link', '![a](http://x.org/b.png)', '<p><a http://x.org/b.png>a</a></p>'],
  ['addresses', 'see http://x.org/a_b. <https://y.org>',
    '<p>see <a http://x.org/a_b>http://x.org/a_b</a>. <a https://y.org/>https://y.org</a></p>'],
  ['a table', '| a | b |\n|---|--:|\n| `x|y` | **c** |\n\nd',
    '<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td><code>x|y</code></td>' +
    '<td><strong>c</strong></td></tr></tbody></table></div><p>d</p>'],
];
for (const [name, text, expected] of kCases) {
  test(name, () => assert.equal(brief(show(text)), expected));
}

test('fenced code keeps its text, tabs and marks', () => {
  const code = all(show('```c\nint\t*a;\n<b>*c*</b>\n```\nd')).find((n) => n.tag === 'code');
  assert.equal(code.textContent, 'int\t*a;\n<b>*c*</b>');
});

test('an unclosed fence goes to the end', () => {
  const root = show('a\n~~~~\n```\nb\n~~~');
  assert.equal(all(root).find((n) => n.tag === 'code').textContent, '```\nb\n~~~');
});

test('fenced code in a list', () => {
  const root = show('1. a\n   ```py\n   b\n     c\n   ```\n2. d');
  assert.equal(all(root).find((n) => n.tag === 'code').textContent, 'b\n  c');
  assert.equal(all(root).filter((n) => n.tag === 'li').length, 2);
});

const kTags = new Set(['p', 'br', 'h3', 'h4', 'h5', 'h6', 'em', 'strong', 'del', 'code', 'pre', 'a',
  'hr', 'blockquote', 'ul', 'ol', 'li', 'div', 'span', 'button', 'table', 'thead', 'tbody', 'tr',
  'th', 'td']);
const kAttributes = new Set(['href', 'rel', 'target', 'title', 'class', 'type', 'tabindex',
  'start']);

// Nothing is made but what this renderer means to make, and links lead to web pages.
function checkSafe(root) {
  for (const node of all(root)) {
    if (node.tag === null) continue;
    assert.ok(kTags.has(node.tag), node.tag);
    for (const name of Object.keys(node.attributes)) assert.ok(kAttributes.has(name), name);
    if (node.tag === 'a') {
      assert.match(node.attributes.href, /^https?:\/\/[^/\s]/);
      assert.equal(node.attributes.rel, 'noopener noreferrer');
      assert.equal(node.attributes.target, '_blank');
    }
  }
}

const kHtml = [
  '<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '<svg/onload=alert(1)>',
  '<iframe src="javascript:alert(1)"></iframe>', '<a href="javascript:alert(1)">x</a>',
  '"><script>alert(1)</script>', '<style>*{display:none}</style>', '<!-- x --><b>y</b>',
  '<scr<script>ipt>alert(1)</scr</script>ipt>',
];
for (const html of kHtml) {
  for (const around of ['X', '# X', '> X', '- X', '| X |\n|---|\n| X |', '**X**', '[X](http://x.org)',
    '`X`', '```X\nX\n```', '```\nX', '[a](http://x.org/ "X")', '![X](http://x.org)']) {
    const text = around.replaceAll('X', html);
    test(`HTML stays text: ${text}`, () => checkSafe(show(text)));
  }
  test(`HTML is shown whole: ${html}`, () => assert.equal(show('a ' + html).textContent,
    'a ' + html));
}

const kBadUrls = [
  'javascript:alert(1)', 'JaVaScRiPt:alert(1)', ' javascript:alert(1)', 'java\nscript:alert(1)',
  'java\tscript:alert(1)', '\u0001javascript:alert(1)', 'javascript&colon;alert(1)',
  '&#106;avascript:alert(1)', 'javascript://x.org/%0aalert(1)', 'javascript:http://x.org',
  'data:text/html,<script>alert(1)</script>', 'data:image/svg+xml;base64,AAAA',
  'vbscript:msgbox(1)', 'file:///etc/passwd', 'blob:http://x.org/1', '//x.org', '/admin/drain',
  'http:', 'http:x.org', 'http://', 'https:///', 'http:javascript:alert(1)', 'feed:javascript:alert(1)',
  'view-source:http://x.org', '<javascript:alert(1)>', '\\javascript:alert(1)', 'mailto:a@x.org',
];
for (const url of kBadUrls) {
  test(`not a link: ${JSON.stringify(url)}`, () => {
    assert.equal(safeUrl(url), null);
    for (const text of [`[a](${url})`, `![a](${url})`, `<${url}>`, `[a](<${url}>)`,
      `[a]( ${url} "t")`, `[**a**](${url})`, `[![a](${url})](${url})`]) {
      checkSafe(show(text));
    }
    assert.equal(all(show(`[a](${url.split('http')[0]})`)).some((n) => n.tag === 'a'), false);
  });
}

test('an address cannot break out of its attribute', () => {
  const root = show('[a](http://x.org/"onmouseover="alert(1)) http://x.org/"onclick=alert(1)');
  checkSafe(root);
});

test('a growing text keeps the nodes of its finished blocks, and ends as if rendered at once', () => {
  const text = '# a\n\nb *c*\n\n- d\n  - e\n\n| f |\n|---|\n| g |\n\n```js\nh\n```\n\n> i\nj';
  const root = new Node('root', '');
  let first;
  for (let n = 1; n <= text.length; n++) {
    render(root, text.slice(0, n), doc);
    if (n === 5) first = root.childNodes[0];
  }
  assert.equal(root.childNodes[0], first);
  assert.equal(brief(root), brief(show(text)));
});

// A time that is linear is well below these on any machine, and a quadratic one far above them.
const kMegabyte = 1 << 20;
const kMaxMs = 4000;
const kWhole = ['[', '*', '`', '_', '[](', '> ', '- ', '|', '\n'];
const kHostile = ['[', '*', '`', '_', '~', '<', '&', '\\', '!', '![', ']', '(', '[]', '[](', '[a](',
  '[](<', '[a](http://', '[[a](http://x.org)', '**a ', '*a _b ', '*a**b', 'a*', '***a', '[*', '`a``',
  '> ', '>', '- ', '-', '+ ', '1. ', '#', '# ', '|', '| a ', '-|', ' ', '\t', '\n', '\r', ' \n', '> \n',
  '- a\n', '  - a\n', '- \n', '|\n', '|a|\n|-|\n', '```\n', '~~~ `\n', '``` ', 'a\n', '>- ', '- > ',
  'http://', 'http://%', 'http://a!!!', 'https://x.org/(', '<http://', '&amp;', '\u2028', '# \u2028',
  '\u{1F600}', '[a](b "', "[a](b '", '~~a ', '---\n', '=', '\\\n', '\0'];
for (const unit of kHostile) {
  const size = kWhole.includes(unit) ? kMegabyte : kMegabyte / 4;
  test(`${size} bytes of ${JSON.stringify(unit)}`, () => {
    const text = unit.repeat(size / unit.length);
    for (const hostile of [text, 'a' + text + 'b', '```' + text + '`', '|' + text + '|\n|-|\n']) {
      const begin = process.hrtime.bigint();
      const root = show(hostile);
      const ms = Number(process.hrtime.bigint() - begin) / 1e6;
      assert.ok(ms < kMaxMs, `${ms} ms`);
      checkSafe(root);
    }
  });
}

test('a megabyte of runs of backticks of all lengths', () => {
  let text = '';
  for (let n = 1; text.length < kMegabyte; n++) text += '`'.repeat(n) + ' ';
  const begin = process.hrtime.bigint();
  show(text);
  assert.ok(Number(process.hrtime.bigint() - begin) / 1e6 < kMaxMs);
});

test('marks nest deeply only so far', () => {
  const text = '> '.repeat(500) + '- '.repeat(500) + '*a '.repeat(500) + 'b' + '*'.repeat(3) +
      ' c*'.repeat(500);
  let deepest = 0;
  const walk = (node, depth) => {
    deepest = Math.max(deepest, depth);
    for (const child of node.childNodes) walk(child, depth + 1);
  };
  walk(show(text), 0);
  assert.ok(deepest < 80, String(deepest));
});
