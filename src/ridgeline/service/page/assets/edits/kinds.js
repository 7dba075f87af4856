// The edits of a plan that the page offers: the fields of each, what is chosen from in them, and the edit that they make.
// All of it is pure.

import { quoted } from "../operator/change.js";

const OPERATOR = { name: "name", title: "Operator", of: "operators" };
const CLASS = { name: "class", title: "Class", example: "package.module.Class", in: "spec" };
const PROPERTIES = { name: "properties", title: "Properties", example: '{"limit": 5}', in: "spec", json: true, optional: true };
const STREAM = { name: "name", title: "Stream", of: "streams" };

// `of`: the names that there are; `in`: it is a member of that object; `list`: several, with commas between.
export const KINDS = {
  "add-operator": { title: "Add an operator", fields: [{ name: "name", title: "Name" }, CLASS, PROPERTIES] },
  "replace-operator": { title: "Replace an operator", fields: [OPERATOR, { ...CLASS, title: "New class" }, PROPERTIES] },
  "rename-operator": { title: "Rename an operator", fields: [OPERATOR, { name: "new", title: "New name" }] },
  "remove-operator": { title: "Remove an operator", fields: [OPERATOR] },
  "add-stream": {
    title: "Add a stream",
    fields: [
      { name: "name", title: "Name" },
      { name: "source", title: "From the port", of: "outputs" },
      { name: "sinks", title: "To the ports", of: "inputs", list: true },
    ],
  },
  "remove-stream": { title: "Remove a stream", fields: [STREAM] },
  "add-sink": { title: "Let a port read a stream", fields: [{ ...STREAM, name: "stream" }, { name: "sink", title: "Port", of: "inputs" }] },
  "remove-sink": { title: "Let a port read a stream no more", fields: [{ ...STREAM, name: "stream" }, { name: "sink", title: "Port", of: "inputs" }] },
  json: { title: "Edits as JSON", fields: [{ name: "edits", title: "Edits", json: true, long: true, example: '[{"do": "remove-operator", "name": "audit"}]' }] },
};

// What there is to choose from: {operators, streams, inputs, outputs}, lists of names.
export function namesOf(plan) {
  const ports = (type) => (plan?.operators ?? []).flatMap((one) => one.ports.filter((port) => port.type === type).map((port) => `${one.name}.${port.name}`));
  return {
    operators: (plan?.operators ?? []).map((one) => one.name),
    streams: (plan?.streams ?? []).map((one) => one.name),
    inputs: ports("input"),
    outputs: ports("output"),
  };
}

// The edits that the fields of a kind make: {edits}, or {problem} in words. `values`: texts by the names of fields.
export function editsOf(kind, values) {
  const edit = { do: kind };
  for (const field of KINDS[kind].fields) {
    const text = (values[field.name] ?? "").trim();
    if (!text && field.optional) continue;
    if (!text) return { problem: `${field.title}: it is missing.` };
    const place = field.in ? (edit[field.in] ??= {}) : edit;
    if (field.list) place[field.name] = text.split(",").map((one) => one.trim()).filter(Boolean);
    else if (field.json) {
      const value = parsed(text);
      if (value === null) return { problem: `${field.title}: this is no JSON of objects, such as ${field.example}.` };
      const lost = inexact(text);
      if (lost) return { problem: `${field.title}: a browser would round the number ${lost}. Use the command \`ridgeline change\`.` };
      place[field.name] = value;
    } else place[field.name] = text;
  }
  if (kind !== "json") return { edits: [edit] };
  const edits = Array.isArray(edit.edits) ? edit.edits : [edit.edits];
  if (edits.some((one) => one === null || typeof one !== "object")) return { problem: "Edits: each one is an object." };
  return edits.length ? { edits } : { problem: "Edits: the list is empty." };
}

// The first number of a JSON text that JavaScript would change; undefined if there is none.
function inexact(text) {
  const numbers = text.replace(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g) ?? [];
  return numbers.find((one) => !Number.isFinite(Number(one)) || (/^-?\d+$/.test(one) && BigInt(one) !== BigInt(Number(one))));
}

// An object or a list of objects; null for all else.
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

// An edit in words: `rename-operator parse to read`.
export function words(edit) {
  const { do: kind, ...fields } = edit;
  const rest = Object.values(fields).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  return `${KINDS[kind]?.title ?? kind}: ${rest.join(", ")}`;
}

// The command that makes the same edits.
export function commandOf(edits, application) {
  return `printf %s ${quoted(JSON.stringify(edits))} | ridgeline change ${quoted(application)} --edits -`;
}
