// The page of the board: asks for the key, and starts the board with it.

import { Board } from "./board/board.js";
import { NO_KEY, devKey, forgetKey, keyForm, noteSession, storedKey, storeKey } from "./board/key.js";

const SIGNED_OUT = "You are signed out. Sign in again, or enter a key.";

const root = document.getElementById("board");
const announcer = document.getElementById("announcer");
/** What visitors without a key see. */
const front = document.getElementById("front");

// The address has the view, and no part of the page.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  (root.querySelector("h1") ?? root).focus();
});

/** Starts the board. A key that is not accepted is asked for again. */
async function start(key, isByVisitor = false) {
  const forget = (problem) => {
    board.close();
    forgetKey();
    ask(problem);
  };
  const forgotten = () => {
    forget("");
    root.querySelector("h1").focus();
  };
  const board = new Board(root, announcer, key, {
    reject: (reason) => forget(key ? `${reason}. Enter another key.` : SIGNED_OUT),
    again: () => start(key, true),
    forget: key !== NO_KEY && forgotten,
  });
  try {
    await board.start(isByVisitor);
    storeKey(key);
  } catch (error) {
    board.close();
    if (error.status === 401) forgetKey();
    const rejected = key ? "The service does not accept this key: check that it is complete." : SIGNED_OUT;
    ask(error.status === 401 ? rejected : `${error.message}.`);
  }
}

function ask(problem) {
  front.hidden = false;
  document.documentElement.classList.remove("has-key");
  front.querySelector(".with-key").replaceChildren(keyForm(problem, (key) => start(key)));
  root.replaceChildren(front);
  if (problem) root.querySelector("input").focus();
}

if ("signedIn" in root.dataset) noteSession();
const key = storedKey() ?? (await devKey(root.dataset.devKey));
if (key === null) ask("");
else await start(key);
