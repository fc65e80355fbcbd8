// Fetches the page that is shown again, every `data-every` milliseconds, and changes what differs.
// All pages and forms work without it. The server escapes; here nothing becomes markup that was not.
"use strict";

const SLOWEST_MS = 30000;

// Makes `old` equal to `fresh`, keeping the nodes that stay: focus, open details and selections live
// in them.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  const isDetails = old.nodeName === "DETAILS";
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(isDetails && name === "open")) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName === "TEXTAREA") return;
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((node, index) => {
    if (index < before.length) morph(before[index], node);
    else old.append(node);
  });
  for (const node of before.slice(after.length)) node.remove();
}

function isInUse(live) {
  const focus = document.activeElement;
  const writes = focus && ["INPUT", "SELECT", "TEXTAREA"].includes(focus.nodeName);
  return (writes && live.contains(focus)) || !!live.querySelector("details.sure[open]");
}

function follow(live) {
  const every = Number(live.dataset.every);
  if (!(every > 0)) return;
  const lost = () => document.getElementById("lost");
  let wait = every;

  async function look() {
    if (!document.hidden && !isInUse(live)) {
      try {
        const answer = await fetch(location.href, {
          headers: { "x-live": "1" },
          signal: AbortSignal.timeout(SLOWEST_MS),
        });
        if (answer.status === 401) {
          location.reload();
          return;
        }
        const found = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = found.getElementById("live");
        // Not while somebody has begun to write meanwhile.
        if (answer.ok && fresh && !isInUse(live)) {
          morph(live, document.adoptNode(fresh));
          const status = found.getElementById("status");
          if (status) morph(document.getElementById("status"), document.adoptNode(status));
          lost().hidden = true;
          // The server says how much slower, when many pages are open.
          wait = every * Math.max(1, Number(answer.headers.get("x-wait")));
        } else if (!answer.ok) {
          throw new Error(String(answer.status));
        }
      } catch {
        lost().hidden = false;
        wait = Math.min(wait * 2, SLOWEST_MS);
      }
    }
    setTimeout(look, wait);
  }
  setTimeout(look, every);
  document.addEventListener("visibilitychange", () => {
    wait = every;
  });
}

function themes(button) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => {
    button.textContent = isDark() ? "light" : "dark";
    button.title = `show pages in ${button.textContent} colours`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    const year = 365 * 24 * 3600;
    document.cookie = `penstock_theme=${root.dataset.theme}; path=/; max-age=${year}; samesite=strict`;
    tell();
  });
  tell();
}

// Addresses of RabbitMQ's pages, as they stand in bookmarks: /#/queues/%2F/orders.
function old_address() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [kind, vhost, name] = parts;
  if (!location.hash.startsWith("#/")) return;
  if (["queues", "exchanges"].includes(kind) && name !== undefined) {
    const query = new URLSearchParams({ vhost, name });
    location.replace(`/${kind.slice(0, -1)}?${query}`);
  } else if (["connections", "channels"].includes(kind) && vhost) {
    location.replace(`/${kind.slice(0, -1)}?${new URLSearchParams({ name: vhost })}`);
  } else if (["queues", "exchanges", "connections", "channels", "users", "vhosts", "policies", "limits"].includes(kind)) {
    location.replace(`/${kind}`);
  }
}

// A file's text goes into the field beside it, where it can be looked at before it is sent.
function files(input) {
  const field = input.form.elements[input.dataset.into];
  input.closest("label").hidden = false;
  input.addEventListener("change", async () => {
    if (input.files.length === 1) field.value = await input.files[0].text();
  });
}

old_address();
document.querySelectorAll("input[type=file][data-into]").forEach(files);
follow(document.getElementById("live"));
themes(document.getElementById("theme"));
// "/" goes to the search, as on many pages.
document.addEventListener("keydown", (event) => {
  const writes = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.nodeName);
  if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.querySelector("header input[type=search]").focus();
  }
});
