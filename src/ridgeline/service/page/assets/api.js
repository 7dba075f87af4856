// Asks the web service. Failures throw {status, error, hint}, which parts/notice.js shows.
import { replaceAddress } from "./router.js";

const base = new URL("ws/v2/stram/", document.baseURI);
const sessionPath = new URL("page/session", document.baseURI);
const KEY = "ridgeline-key"; // half of the session; the browser's cookie is the other

export function keyHeaders() {
  const key = localStorage.getItem(KEY);
  return key ? { "x-ridgeline-key": key } : {};
}

export function address(path, query = {}) {
  const url = new URL(path.replace(/^\//, ""), base);
  for (const [name, value] of Object.entries(query)) {
    if (value != null) url.searchParams.set(name, value);
  }
  return url;
}

export function get(path, query, options = {}) {
  return ask(address(path, query), options);
}

export function post(path, body = {}, query) {
  return ask(address(path, query), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

// The value of JSON; whole numbers that JavaScript cannot hold stay texts, with all of their digits.
export function exact(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    const source = context?.source; // browsers of before 2025 may not say it
    return typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? source : value;
  });
}

async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { ...options, headers: { ...options.headers, ...keyHeaders() } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw { status: 0, error: "the application does not answer", hint: "it may have ended, or the connection is lost" };
  }
  if (!response.ok) throw await failure(response);
  return response.text().then(exact).catch(() => ({}));
}

// {status, error, hint} of an answer that refuses.
export async function failure(response) {
  const answer = await response.text().then(exact).catch(() => ({}));
  return { status: response.status, error: answer.error ?? response.statusText, hint: answer.hint ?? "" };
}

// Rights: {reads, writes}.
export function rights() {
  return ask(sessionPath, {});
}

// Begins a session with {code} or {token}.
export async function signIn(credentials) {
  const answer = await ask(sessionPath, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(credentials),
  });
  localStorage.setItem(KEY, answer.key);
  return answer;
}

// Exchanges the one-time code of the address, if it has one, and removes it from the address at once.
export async function exchangeCode() {
  const match = /^#code=([\w-]+)$/.exec(location.hash);
  if (!match) return null;
  replaceAddress(`${location.pathname}${location.search}`);
  try {
    await signIn({ code: match[1] });
  } catch (error) {
    return error;
  }
  return null;
}
