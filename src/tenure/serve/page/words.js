// Durations, times and states in words. Times are local, and their titles say them in UTC as well.

export const STATES = {
  "two-leaders": { word: "two leaders", rank: 0 },
  vacant: { word: "no leader", rank: 1 },
  overstay: { word: "overstays", rank: 2 },
  "at-risk": { word: "at risk", rank: 3 },
  flapping: { word: "flapping", rank: 4 },
  "stale-writes": { word: "stale writes", rank: 5 },
  idle: { word: "idle", rank: 6 },
  ok: { word: "fine", rank: 7 },
};

// One shape for each state: whoever cannot tell red from green can tell a triangle from a disc. In a box of 24.
export const SHAPES = {
  "two-leaders": "M2 5h9v14H2zM13 5h9v14h-9z",
  vacant: "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm0 4.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11z",
  overstay: "M4 2h16v3l-6 7 6 7v3H4v-3l6-7-6-7z",
  "at-risk": "M12 2 23 21H1zm-1.2 6v7h2.4V8zm0 8.5v2.3h2.4v-2.3z",
  flapping: "M1 9l6-6v4h12v4H7v4zM23 15l-6 6v-4H5v-4h12V9z",
  "stale-writes": "M12 1a11 11 0 1 0 0 22 11 11 0 0 0 0-22zm0 3a8 8 0 0 1 4.9 1.7L5.7 16.9A8 8 0 0 1 12 4zm0 16a8 8 0 0 1-4.2-1.2L18.6 7.6A8 8 0 0 1 12 20z",
  idle: "M3 10h18v4H3z",
  ok: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  bad: "M8 1h8l7 7v8l-7 7H8l-7-7V8zM11 6v8h2V6zm0 10v2.4h2V16z",
  warn: "M12 2 23 21H1zm-1.2 6v7h2.4V8zm0 8.5v2.3h2.4v-2.3z",
  fine: "M9.2 18.6 2.5 12l2.4-2.4 4.3 4.2L19 4l2.5 2.4z",
  wait: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 3a6 6 0 1 1 0 12 6 6 0 0 1 0-12z",
};

export function short(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return lasting(seconds);
}

export function lasting(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const ZONE = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });

export function clock(at_ms, now_ms) {
  const at = new Date(at_ms);
  const old = Math.abs(now_ms - at_ms) > 12 * 3600 * 1000;
  return old ? `${DAY.format(at)} ${CLOCK.format(at)}` : CLOCK.format(at);
}

export function both(at_ms) {
  const at = new Date(at_ms);
  const zone = ZONE.formatToParts(at).find((part) => part.type === "timeZoneName")?.value ?? "local";
  const utc = `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  return zone === "UTC" ? utc : `${DAY.format(at)} ${CLOCK.format(at)} ${zone}, ${utc}`;
}

// A holder is host/pid/nonce. People know hosts and pids; the whole is in the title.
export function named(holder) {
  const [host, pid] = holder.split("/");
  return pid ? `${host}/${pid}` : holder;
}

export const REASONS = {
  "": "not known",
  lapsed: "its lease ran out",
  deposed: "deposed",
  resigned: "left by choice",
  "store-gone": "could not reach the store",
  stalled: "made no progress",
  vanished: "went without a word",
  unknown: "not known",
};

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

const who = (fact) => (fact.holder ? named(fact.holder) : "somebody");

// What is left out is not shown: renewals, for one, of which there are many.
const FACTS = {
  stood: (fact) => `${who(fact)} stands`,
  elected: (fact) => `${who(fact)} leads, token ${fact.token}`,
  ending: (fact) => `${who(fact)} is told to stop: ${REASONS[fact.reason] ?? fact.reason}`,
  overstayed: (fact) => `${who(fact)} still works with token ${fact.token}, past its lease`,
  left: (fact) => `${who(fact)} left, token ${fact.token}: ${REASONS[fact.reason] ?? fact.reason}`,
  withdrew: (fact) => `${who(fact)} stands no longer`,
  "seal-failed": (fact) => `${fact.sink} could not be sealed: ${fact.detail}`,
  "store-failed": (fact) => `the store: ${fact.operation} ${fact.outcome}: ${fact.detail}`,
  "store-lost": (fact) => `the store does not answer: ${fact.detail}`,
  "store-back": (fact) => `the store answers again, after ${short(fact.gone_for_s)}`,
  "refused-stale": (fact) => `stale write refused by ${fact.sink}: token ${fact.token}, it has seen ${fact.highest}`,
  "refused-unverified": (fact) => `unverified token ${fact.token} refused by ${fact.sink}`,
  suspended: (fact) => `this machine slept for ${short(fact.for_s)}`,
  noted: (fact) => fact.text,
};

const LOUD = new Set(["overstayed", "store-lost", "refused-stale", "refused-unverified", "seal-failed", "suspended", "noted"]);

export function told(fact) {
  const words = FACTS[fact.fact];
  return words === undefined ? null : { text: words(fact), loud: LOUD.has(fact.fact) };
}
