// Has a turn answered: makes the request of a pane's history, and fills the answer as it streams.

import {ApiError, streamAnswer} from './chat_api.js';

// The messages of a pane up to a turn's. A pane goes on from the first one's answers where it has
// none of its own. Templates want roles to alternate, so what a failed turn asked is put before
// the next one's.
export function messagesOf(chat, pane, index) {
  const messages = [];
  if (chat.system.trim() !== '') messages.push({role: 'system', content: chat.system});
  let asked = [];
  for (const turn of chat.turns.slice(0, index + 1)) {
    asked.push(turn.user);
    if (turn === chat.turns[index]) break;
    const answer = turn.answers[pane] ?? turn.answers.a;
    if (answer === undefined || answer.text === '') continue;
    messages.push({role: 'user', content: asked.join('\n\n')});
    messages.push({role: 'assistant', content: answer.text});
    asked = [];
  }
  messages.push({role: 'user', content: asked.join('\n\n')});
  return messages;
}

function addCall(calls, delta) {
  const index = Number.isInteger(delta.index) && delta.index >= 0 ? delta.index : 0;
  if (index > 127) return;
  while (calls.length <= index) calls.push({name: '', arguments: ''});
  calls[index].name += delta.function?.name ?? '';
  calls[index].arguments += delta.function?.arguments ?? '';
}

function factsOf(settings, end, measured) {
  const facts = {priority: settings.priority, ...measured};
  facts.finish = end?.finish ?? '';
  if (end?.usage) {
    facts.tokens = end.usage.completion_tokens;
    facts.counted = false;
    facts.prompt = end.usage.prompt_tokens;
    facts.cached = end.usage.prompt_tokens_details?.cached_tokens ?? 0;
  }
  const timings = end?.timings;
  if (timings && Number.isFinite(timings.prefill_ms)) {
    facts.queued = timings.queue_ms ?? 0;
    facts.prefill = timings.prefill_ms;
    facts.ttft = facts.queued + facts.prefill;
    if (timings.decode_ms > 0) facts.rate = 1000 * (facts.tokens - 1) / timings.decode_ms;
    facts.cutBy = timings.cut_by;
    facts.contextEnd = timings.max_tokens !== undefined;
    facts.seed = end.seed;
  }
  if (!(facts.tokens > 1)) delete facts.rate;
  return facts;
}

// Fills chat.turns[index].answers[pane]. `onChange` is called at each delta. True if the server
// wants a key.
export async function runAnswer(chat, pane, index, signal, onChange) {
  const answer = {text: '', thoughts: '', calls: [], state: 'waiting'};
  const settings = {...chat.settings[pane]};
  const messages = messagesOf(chat, pane, index);
  chat.turns[index].answers[pane] = answer;
  onChange();
  const begin = performance.now();
  let first = 0;
  let last = 0;
  let deltas = 0;
  let end = null;
  let needsKey = false;
  try {
    end = await streamAnswer(settings, messages, signal, (delta) => {
      const thought = delta.reasoning_content ?? delta.reasoning ?? '';
      const text = delta.content ?? '';
      if (thought === '' && text === '' && !delta.tool_calls) return;
      last = performance.now();
      if (first === 0) first = last;
      deltas++;
      answer.state = 'streaming';
      answer.thoughts += thought;
      answer.text += text;
      for (const call of delta.tool_calls ?? []) addCall(answer.calls, call);
      onChange();
    });
    answer.state = 'done';
  } catch (error) {
    if (error.name === 'AbortError') {
      answer.state = 'stopped';
    } else {
      answer.state = 'failed';
      answer.error = error instanceof ApiError ? error.message : 'The answer could not be read.';
      needsKey = error.status === 401;
      if (!(error instanceof ApiError)) console.warn(error);
    }
  }
  const measured = {};
  if (first > 0) {
    measured.ttft = first - begin;
    measured.tokens = deltas;
    measured.counted = true;
    if (last > first) measured.rate = 1000 * (deltas - 1) / (last - first);
  }
  answer.facts = factsOf(settings, end, measured);
  return needsKey;
}
