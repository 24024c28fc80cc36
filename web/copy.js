// The button that copies the new key. Where the browser permits no copying, it selects the key.

const key = document.getElementById("key");
const button = document.getElementById("copy");

button.hidden = false;
button.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(key.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(key);
    button.textContent = "Selected: copy it";
  }
});
