// Words, numbers with units, and elements. Text reaches the page by textContent alone.

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const tenth = new Intl.NumberFormat('en', {maximumFractionDigits: 1, minimumFractionDigits: 1});

export function count(value) {
  return whole.format(value);
}

// "1 request", "2 requests".
export function countOf(value, noun) {
  return `${whole.format(value)} ${noun}${value === 1 ? '' : 's'}`;
}

export function rate(value) {
  return value > 0 && value < 10 ? tenth.format(value) : whole.format(value);
}

export function percent(share) {
  const value = share * 100;
  return `${value > 0 && value < 1 ? '<1' : whole.format(value)} %`;
}

// Milliseconds, as [number, unit].
export function timeParts(ms) {
  if (ms >= 60000) return [tenth.format(ms / 60000), 'min'];
  if (ms >= 1000) return [tenth.format(ms / 1000), 's'];
  if (ms > 0 && ms < 10) return [tenth.format(ms), 'ms'];
  return [whole.format(ms), 'ms'];
}

export function time(ms) {
  return timeParts(ms).join(' ');
}

export function seconds(value) {
  return time(value * 1000);
}

// The time of day of Unix seconds.
export function clock(at) {
  const date = new Date(at * 1000);
  const part = (number, digits = 2) => String(number).padStart(digits, '0');
  return `${part(date.getHours())}:${part(date.getMinutes())}:${part(date.getSeconds())}` +
      `.${part(date.getMilliseconds(), 3).slice(0, 1)}`;
}

export function tenantName(tenant) {
  return tenant === '' ? 'no key' : tenant;
}

// An element with a class and children; strings become text.
export function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

// Writes only what has changed, so that a screen reader and the layout have peace.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Brings the children of `parent` to one for each item, made by create() and kept by key. What is
// in place is not touched: a browser takes the focus from an element that is moved.
export function keep(parent, items, keyOf, create, update) {
  const known = parent.keptByKey || (parent.keptByKey = new Map());
  const focused = document.activeElement;
  const wanted = new Set(items.map(keyOf));
  for (const [key, child] of known) {
    if (wanted.has(key)) continue;
    child.remove();
    known.delete(key);
  }
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    if (!child) {
      child = create(item);
      known.set(key, child);
    }
    if (child === place) {
      place = place.nextSibling;
    } else if (place && place.nextSibling === child) {
      place = child.nextSibling;  // The one before it goes further down, when its turn comes.
    } else {
      parent.insertBefore(child, place);
    }
    update(child, item);
  }
  if (document.activeElement !== focused && parent.contains(focused)) {
    focused.focus({preventScroll: true});  // It had to move.
  }
}

// The value of a colour of the style sheet.
export function colours(names) {
  const style = getComputedStyle(document.documentElement);
  const found = {};
  for (const name of names) found[name] = style.getPropertyValue(`--${name}`).trim();
  return found;
}

// A canvas sharp on this screen; returns its context in CSS pixels.
export function sharpContext(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.max(1, Math.round(width * ratio));
  const high = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
