// Speaks with the server: the models, and answers as they stream.

export const kKeyName = 'ropeway-api-key';

// What kept a request from being answered, in the server's words.
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function readKey() {
  try {
    return sessionStorage.getItem(kKeyName) ?? '';
  } catch {
    return '';
  }
}

// The key is kept for this tab only. False where the browser keeps nothing.
export function keepKey(key) {
  try {
    if (key === '') {
      sessionStorage.removeItem(kKeyName);
    } else {
      sessionStorage.setItem(kKeyName, key);
    }
    return true;
  } catch {
    return false;
  }
}

function headers() {
  const key = readKey();
  return key === '' ? {} : {Authorization: `Bearer ${key}`};
}

async function request(path, options) {
  let reply;
  try {
    reply = await fetch(path, {cache: 'no-store', credentials: 'omit', ...options});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The server cannot be reached.');
  }
  if (reply.ok) return reply;
  const text = await reply.text().catch(() => '');
  let message = '';
  try {
    message = String(JSON.parse(text).error.message);
  } catch {
    message = `The server answered with status ${reply.status}.`;
  }
  const retry = parseInt(reply.headers.get('Retry-After') ?? '', 10);
  if (Number.isFinite(retry)) message = `${message.replace(/\.$/, '')}; try again in ${retry} s.`;
  throw new ApiError(reply.status, message);
}

// The names of the models.
export async function fetchModels() {
  const reply = await request('/v1/models', {headers: headers()});
  const list = await reply.json();
  return list.data.map((model) => String(model.id));
}

// The body of a request. A seed has up to 64 bits, of which a number of this language keeps 53, so
// it is written as its digits.
function bodyOf(settings, messages) {
  const body = {messages, stream: true, stream_options: {include_usage: true}};
  if (settings.model !== '') body.model = settings.model;
  if (settings.priority !== '') body.priority = settings.priority;
  if (settings.temperature !== '') body.temperature = Number(settings.temperature);
  if (settings.topP !== '') body.top_p = Number(settings.topP);
  if (settings.maxTokens !== '') body.max_tokens = Number(settings.maxTokens);
  if (settings.thinking !== '') {
    body.chat_template_kwargs = {enable_thinking: settings.thinking === 'on'};
  }
  const text = JSON.stringify(body);
  if (!/^-?\d{1,20}$/.test(settings.seed)) return text;
  return `${text.slice(0, -1)},"seed":${BigInt(settings.seed)}}`;
}

// Calls `onEvent` with each event of a stream, as text.
async function readEvents(stream, onEvent) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, {stream: true})).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data:')) onEvent(line.slice(5).trim());
    }
  }
}

// Streams an answer. `onDelta` gets each delta of the answer; the result is how it ended:
// {finish, usage, timings, seed}.
export async function streamAnswer(settings, messages, signal, onDelta) {
  const reply = await request('/v1/chat/completions', {
    method: 'POST',
    headers: {...headers(), 'Content-Type': 'application/json'},
    body: bodyOf(settings, messages),
    signal,
  });
  const end = {finish: '', usage: null, timings: null, seed: ''};
  let done = false;
  await readEvents(reply.body, (event) => {
    if (event === '[DONE]') {
      done = true;
      return;
    }
    const chunk = JSON.parse(event);
    if (chunk.error) throw new ApiError(0, String(chunk.error.message ?? 'The stream failed.'));
    const choice = chunk.choices?.[0];
    if (choice?.delta) onDelta(choice.delta);
    if (choice?.finish_reason) end.finish = choice.finish_reason;
    if (chunk.usage) end.usage = chunk.usage;
    if (chunk.ropeway) {
      end.timings = chunk.ropeway;
      end.seed = /"seed":\s*(\d+)/.exec(event.slice(event.lastIndexOf('"ropeway"')))?.[1] ?? '';
    }
  });
  if (!done) throw new ApiError(0, 'The connection broke before the answer ended.');
  return end;
}
