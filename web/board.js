// The page of the board: asks for the key, and starts the board with it.

import { Board } from "./board/board.js";
import { devKey, forgetKey, keyForm, storedKey, storeKey } from "./board/key.js";

const root = document.getElementById("board");
const announcer = document.getElementById("announcer");

/** Starts the board. A key that is not accepted is asked for again. */
async function start(key, isByVisitor = false) {
  const reject = (reason) => {
    board.close();
    forgetKey();
    ask(`${reason}. Enter another key.`);
  };
  const board = new Board(root, announcer, key, reject, () => start(key, true));
  try {
    await board.start(isByVisitor);
    storeKey(key);
  } catch (error) {
    board.close();
    if (error.status === 401) forgetKey();
    ask(
      error.status === 401 ? "The service does not accept this key: check that it is complete." : `${error.message}.`,
    );
  }
}

function ask(problem) {
  root.replaceChildren(keyForm(problem, (key) => start(key)));
  root.querySelector(problem ? "input" : "h1").focus();
}

const key = storedKey() ?? (await devKey(root.dataset.devKey));
if (key === null) ask("");
else await start(key);
