// Before the page is drawn: with a key in this tab, the board follows, and nothing for visitors is shown before it.

if (sessionStorage.getItem("railbird-key")) document.documentElement.classList.add("has-key");
