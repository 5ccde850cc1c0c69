// Leads through a sidecar, with nothing but Node itself (18 or later).
//
//   TENURE_SIDECAR=http://127.0.0.1:8087 TENURE_TOKEN_FILE=/etc/tenure/token node leader.mjs billing/close
//
// Run it on as many machines as you like: one of them works at a time. Every write carries the token, so that what the
// writes go to can refuse a leader of the past.

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const [election] = process.argv.slice(2);
const url = process.env.TENURE_SIDECAR;
const token = readFileSync(process.env.TENURE_TOKEN_FILE, 'utf8').trim();
const leaving = new AbortController();
process.once('SIGTERM', () => leaving.abort());
process.once('SIGINT', () => leaving.abort());

// Returns the answer, and up to when it may be believed: counted from when it was sent, because how long the answer was on
// its way nobody knows.
async function ask(method, path, body, signal = AbortSignal.timeout(60_000)) {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
  const sent = performance.now();
  const answer = await fetch(url + path, { method, headers, signal, body: body && JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(`${answer.status} ${found.error}: ${found.detail}`);
  return { ...found, until: sent + found.valid_for_s * 1000 };
}

// Stands once, and calls work again and again while the office is held. Returns why it is over.
async function lead(work) {
  let one = await ask('POST', `/v1/elections/${election}/candidacies`, { keep_s: 5 });
  const path = `/v1/candidacies/${one.id}`;
  try {
    while (one.state === 'waiting' && !leaving.signal.aborted) {
      const signal = AbortSignal.any ? AbortSignal.any([leaving.signal, AbortSignal.timeout(60_000)]) : leaving.signal;
      one = await ask('GET', `${path}?wait_s=30`, undefined, signal);
    }
    while (one.state === 'leading' && !leaving.signal.aborted) {
      // A third of the client's own time at the most: two heartbeats may be lost.
      const next = Math.min(performance.now() + (one.keep_s / 3) * 1000, one.until);
      while (!leaving.signal.aborted && performance.now() < next) await work(one.token);
      try {
        const left = Math.max(1, one.until - performance.now());
        one = await ask('POST', `${path}/heartbeat`, undefined, AbortSignal.timeout(left));
      } catch (error) {
        if (performance.now() >= one.until) return error.message; // Nobody said that we still lead, so we do not.
      }
    }
    return `${one.state} ${one.reason ?? ''}`;
  } finally {
    // The work has ended, so the office need not wait for our deadline.
    await ask('DELETE', path, undefined, AbortSignal.timeout(5_000)).catch(() => {});
  }
}

while (!leaving.signal.aborted) {
  const why = await lead(async (number) => {
    console.log(`works with token ${number}`);
    await sleep(50);
  }).catch((error) => error.message);
  if (!leaving.signal.aborted) {
    console.log(`stands again: ${why}`);
    await sleep(200);
  }
}
console.log('resigned');
