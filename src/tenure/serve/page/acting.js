// Asking a leader to leave. It is asked first, with names; and the token is typed once and kept in this variable, nowhere else.

import { byId, make, say, show } from "./dom.js";
import { named, short } from "./words.js";

let bearer = "";

const WORDS = {
  resign: { title: "Ask the leader to resign?", button: "Ask to resign", done: "asked to leave" },
  transfer: { title: "Hand over to the next in the queue?", button: "Hand over", done: "asked to hand over" },
};

export function ask(row, kind, opener, context) {
  const dialog = byId("ask");
  const words = WORDS[kind];
  const { holder, token } = row.leader;
  const next = row.standbys[0];
  const input = make("input", { type: "password", id: "ask-token", autocomplete: "off", required: true });
  const field = make("p", { class: "ask-field" }, make("label", { for: "ask-token" }, "Bearer token of this server"), input);
  show(field, bearer === "");
  const answer = make("p", { class: "ask-answer", role: "status" });
  const cancel = make("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const go = make("button", { type: "submit", class: "danger" }, words.button);
  const form = make(
    "form",
    { method: "dialog" },
    make("h2", { id: "ask-title" }, words.title),
    make("dl", { class: "facts" }, make("dt", {}, "Election"), make("dd", {}, make("bdi", {}, row.election)), make("dt", {}, "Leader"), make("dd", {}, make("bdi", {}, holder)), make("dt", {}, "Token"), make("dd", {}, String(token))),
    make("p", {}, `${named(holder)} learns of it at its next renewal, stops its work and leaves. It is a request: nothing is taken away, and it may stand again.`),
    next === undefined
      ? make("p", { class: "caution" }, make("strong", {}, "Nobody stands by. "), "There will be no leader until somebody stands.")
      : make("p", {}, make("bdi", {}, named(next)), row.standbys.length === 1 ? " stands by." : ` and ${row.standbys.length - 1} more stand by.`),
    field,
    answer,
    make("p", { class: "actions" }, cancel, go),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (bearer === "" && input.value.trim() === "") {
      say(answer, "The token is needed.");
      input.focus();
      return;
    }
    go.disabled = true;
    say(answer, "Asking…");
    const given = bearer || input.value.trim();
    const outcome = await send(row.election, token, given);
    if (outcome.ok) {
      bearer = given;
      const { asked } = outcome;
      const another = asked === null ? "Nobody" : named(asked.holder);
      // Another may have come in the instant between the server's look and its word.
      if (asked?.token === token) say(answer, `${named(holder)} was ${words.done}. Waiting for it to leave…`);
      else say(answer, `${another} was ${words.done}: ${named(holder)} had left.`);
      cancel.textContent = "Close";
      go.hidden = true;
      if (asked?.token === token) follow(row.election, token, answer, context);
      cancel.focus();
      return;
    }
    go.disabled = false;
    say(answer, outcome.why);
    if (outcome.refused) {
      bearer = "";
      show(field, true);
      input.value = "";
      input.focus();
    }
  });
  dialog.replaceChildren(form);
  // It is told of in a task of its own, and keys may have come before: who has asked again or gone on keeps what is theirs.
  dialog.onclose = () => {
    if (dialog.open) return;
    dialog.replaceChildren();
    if (document.activeElement === document.body && opener.isConnected) opener.focus();
  };
  dialog.showModal();
  (bearer === "" ? input : cancel).focus();
}

async function send(election, token, given) {
  let answer;
  try {
    answer = await fetch(`v1/elections/${encodeURIComponent(election)}/resign`, {
      method: "POST",
      headers: { Authorization: `Bearer ${given}`, "Content-Type": "application/json" },
      // A number that this language cannot hold would be that of another tenure.
      body: JSON.stringify(Number.isSafeInteger(token) ? { token } : {}),
      cache: "no-store",
    });
  } catch {
    return { ok: false, why: "The server cannot be reached. Nothing is known of the request." };
  }
  if (answer.ok) return { ok: true, asked: (await answer.json()).asked };
  if (answer.status === 401 || answer.status === 403) return { ok: false, refused: true, why: "The server refused this token." };
  const said = await answer.json().catch(() => ({}));
  const detail = said.detail ?? said.error ?? "";
  if (said.error === "tenure-over") return { ok: false, why: `Nobody was asked: ${detail}.` };
  return { ok: false, why: `The server answered ${answer.status}${typeof detail === "string" && detail ? `: ${detail}` : ""}.` };
}

// Says how it ended, while the dialog is open.
function follow(election, token, answer, context) {
  const asked_at = Date.now();
  const look = setInterval(() => {
    const row = context.row(election);
    if (!answer.isConnected || row === undefined) return clearInterval(look);
    if (row.leader !== null && row.leader.token === token) return undefined;
    if (row.leader === null) return say(answer, `It has left. Nobody leads yet, for ${short((Date.now() - asked_at) / 1000)}.`);
    say(answer, `${named(row.leader.holder)} leads now, with token ${row.leader.token}.`);
    return clearInterval(look);
  }, 200);
}
