// "Why does it wait?" in one sentence.
import {countOf, seconds} from './dashboard_format.js';

// The rules by which the server names what keeps the first of the queue waiting. See
// docs/scheduling.md, and docs/gateway.md for those of a gateway.
const RULES = {
  'max_num_seqs': ({slots}) => `all ${slots > 0 ? `${slots} ` : ''}slots are taken, and none may ` +
      'be taken from what runs',
  'max_num_batched_tokens': () => 'the tokens that one step may compute are given to others first',
  'free KV blocks': () => 'the KV cache has too few free blocks for it',
  'a preemption in this step': () => 'a running request just gave way for memory, and nothing ' +
      'starts in such a step',
  'another request that computes the same prefix': () => 'another request computes the same ' +
      'beginning of the prompt, which it will share',
  'the current batch': () => 'the batch that runs must end, or its own batch must fill',
  'its class\'s share': () => 'its class has used its share of the work, so other classes go first',
  'a read from the disk tier': () => 'KV blocks are being read from disk',
  'memory': () => 'the engine has no memory for the step',
  'batch': () => 'its batch must fill, or the batches under way must end',
  'slots': () => 'all places at the backends are taken',
  'backends': () => 'no backend is up',
};

export function blockedWords(rule, hello) {
  const words = Object.hasOwn(RULES, rule) ? RULES[rule](hello) : '';
  return words || `${rule}`;
}

function aheadWords(request) {
  const verb = request.position === 1 ? 'goes' : 'go';
  return `${countOf(request.position, 'request')} ${verb} before it`;
}

function classWords(request) {
  if (request.class === 'low') return ' (classes high and medium usually go first)';
  if (request.class === 'medium') return ' (class high usually goes first)';
  return '';
}

export function whyItWaits(request, store) {
  const {frame, hello} = store;
  const rule = frame.queue.blocked_by;
  const first = rule === null ? '' : blockedWords(rule, hello);
  if (request.ended) {
    const {queue_ms: waited} = request.ended;
    return waited >= 1 ? `It ended. Before it started it had waited ${seconds(waited / 1000)}.` :
        'It ended, and had not waited.';
  }
  switch (request.phase) {
    case 'encoding':
      return 'Its prompt is being turned into tokens; then it takes its place in the queue.';
    case 'preempted': {
      const began = store.gateway ?
          'Its backend was lost or had no place, and it goes on at another one' :
          'It gave its slot and its KV blocks to another request and goes on later where it was';
      if (request.position > 0) return `${began}; ${aheadWords(request)}${classWords(request)}.`;
      return first ? `${began}; it is next, but ${first}.` : `${began}; it is next.`;
    }
    case 'waiting':
      if (request.position === null) return 'It has just come and gets its place in the queue.';
      if (request.position > 0) {
        const then = first ? `, and for the first of them ${first}` : '';
        return `${aheadWords(request)}${classWords(request)}${then}.`;
      }
      return first ? `It is the next to start, but ${first}.` : 'It is the next to start.';
    case 'fetching':
      return 'It has a slot, but the KV blocks of its prompt are still being read from disk.';
    case 'prefill':
    case 'decode':
      if (frame.at - request.lastRowAt > 0.5) {
        return 'It has a slot, but the last steps went to more urgent requests.';
      }
      return request.phase === 'prefill' ?
          'It does not wait: its prompt is being computed, chunk by chunk.' :
          'It does not wait: each step adds a token to its answer.';
    case 'gone':
      return 'This page does not see it any more.';
    default:
      return store.gateway && request.backend ?
          `It does not wait here: ${request.backend} computes it.` :
          'It does not wait: it has a slot.';
  }
}
