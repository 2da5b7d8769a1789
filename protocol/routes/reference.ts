/** Writes the pages of the HTTP reference from the rows of routes, as Markdown. */
import type { Schema } from '../shapes/schema.ts';
import { PARAMETERS } from './pieces.ts';
import { pathsOf, type Resource, type RouteRow } from './row.ts';

const WIDTH = 120;

/** The file of a resource below `docs/`. */
export function fileOf({ page }: Resource): string {
  return `http-${page}.md`;
}

export function pageOf(resource: Resource): string {
  const { name, about, rows } = resource;
  const explained = new Map<string, string>();
  return [
    // `MCP` stays.
    `# HTTP: ${name.replace(/^[A-Z](?=[a-z]+\b)/, (letter) => letter.toLowerCase())}`,
    `<!-- Written by "npm run reference" from the rows in protocol/routes. -->`,
    wrapped(about),
    wrapped(
      'What all routes have in common is in the [HTTP reference](http-api.md): authentication, errors, pages of lists, streams.',
    ),
    ...rows.flatMap((row) => sectionOf(row, explained)),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
    .concat('\n');
}

function sectionOf(row: RouteRow, explained: Map<string, string>): string[] {
  const { method, path, title, does, drafts, answer, example } = row;
  const [, draft] = pathsOf(row);
  const below = draft === undefined ? '' : `Drafts: the same at \`${draft}\`.`;
  const differs = typeof drafts === 'string' ? `${below} ${drafts}` : below;
  return [
    `## ${title}`,
    `\`${method} ${path}\``,
    wrapped(`${does} ${neededFor(row)}`),
    wrapped(differs),
    inputsOf(row),
    wrapped(answerOf(row)),
    example === undefined ? '' : `\`\`\`json\n${jsonText(example)}\n\`\`\``,
    answer.json === undefined ? '' : membersOf(answer.json, title, explained),
    wrapped(errorsOf(row)),
  ];
}

function neededFor({ needs, path }: RouteRow): string {
  if (needs === 'anyone') return 'It needs no token.';
  if (needs === 'account') return 'It needs a person who is signed in, or the right `admin`.';
  if (typeof needs === 'string')
    return `It needs the right \`${needs}\`${needs !== 'admin' && /:(?:id|app)\b/.test(path) ? ' for the app' : ''}.`;
  const { right, of, without = right } = needs;
  const named = of.includes(' ') ? `for ${of}` : `for the app in \`${of}\``;
  const other = of.includes(' ') || without === right ? '' : `, without one \`${without}\``;
  return `It needs the right \`${right}\` ${named}${other}.`;
}

/** A table of everything that is sent. */
function inputsOf({ path, params = {}, query, headers = {}, body }: RouteRow): string {
  const named = [...path.matchAll(/:(\w+)|\*$/g)].map(([all, name = all]) => name);
  const lines = [
    ...named.map((name) => [`\`${name}\``, 'path', params[name] ?? PARAMETERS[name] ?? '']),
    ...(query === undefined ? [] : members(query, 'query')),
    ...Object.entries(headers).map(([name, text]) => [`\`${name}\``, 'header', text]),
    ...(body === undefined
      ? []
      : 'media' in body
        ? [['', 'body', `${body.says} (\`${body.media}\`)`]]
        : members(body, 'body')),
  ];
  if (lines.length === 0) return '';
  return table(['Name', 'In', 'What'], lines);
}

function members(schema: Schema, place: string): string[][] {
  const { properties = {}, required = [] } = schema;
  const rows = Object.entries(properties).map(([name, inner]) => {
    const mark = required.includes(name) ? '' : ', optional';
    return [`\`${name}\``, place + mark, meaningOf(inner)];
  });
  return rows.length === 0 && place === 'body'
    ? [['', place, capital(schema.says ?? schema.wanted ?? 'a JSON object')]]
    : rows;
}

function answerOf({ answer }: RouteRow): string {
  const { status = 200, json, media, says = '', also = {}, headers = {} } = answer;
  const type = media === '*/*' ? ' with a file of any type' : ` \`${media}\``;
  const what = media !== undefined ? type : json === undefined ? ' without a body' : '';
  const others = Object.entries(also).map(([code, text]) => `${code}: ${text}.`);
  const named = Object.entries(headers).map(([name, text]) => `The header \`${name}\` has ${text}.`);
  return [`Answers ${status}${what}.`, says, ...others, ...named].filter(Boolean).join(' ');
}

/** What members of an answer mean, where their names do not say it; each is explained once a page. */
function membersOf(json: Schema, title: string, explained: Map<string, string>): string {
  const all = new Map(meanings(json, '').map((row) => [JSON.stringify(row), row]));
  const fresh = [...all.keys()].filter((key) => !explained.has(key));
  const before = new Set([...all.keys()].flatMap((key) => explained.get(key) ?? []));
  for (const key of fresh) explained.set(key, title);
  const rows = fresh.flatMap((key) => [all.get(key) ?? []]);
  const where = [...before].map((one) => `[${one}](#${anchorOf(one)})`).join(' and ');
  const which = rows.length === 0 ? 'Members' : 'Further members';
  const parts = [
    rows.length === 0 ? '' : table(['Member', 'What'], rows),
    where === '' ? '' : wrapped(`${which} are explained at ${where}.`),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

function meanings(schema: Schema, at: string): string[][] {
  const { properties = {}, items, anyOf = [], says = '', wanted = '' } = schema;
  const meaning = [schema.enum === undefined ? '' : capital(wanted), says].filter(Boolean).join('. ');
  const own = at !== '' && meaning !== '' ? [[`\`${at}\``, meaning]] : [];
  const inner = Object.entries(properties).flatMap(([name, one]) => meanings(one, at === '' ? name : `${at}.${name}`));
  const rows = items === undefined ? [] : meanings(items, at === '' ? '' : `${at}[]`);
  return [...own, ...inner, ...rows, ...anyOf.flatMap((one) => meanings(one, at))];
}

function errorsOf({ errors = {} }: RouteRow): string {
  const list = Object.entries(errors).map(([code, text]) => `\`${code}\`${text === '' ? '' : ` (${text})`}`);
  return list.length === 0 ? '' : `Errors: ${list.join(', ')}.`;
}

function table(heads: string[], rows: string[][]): string {
  const line = (cells: string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(heads), `|${heads.map(() => '---|').join('')}`, ...rows.map(line)].join('\n');
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** What a member must be, and what it means. A text that is nothing but a text is what it means. */
function meaningOf({ wanted = '', says = '' }: Schema): string {
  return [says !== '' && wanted === 'a text' ? '' : capital(wanted), says].filter(Boolean).join('. ');
}

/** JSON with what is short on one line. */
function jsonText(value: unknown, indent = ''): string {
  const short = oneLine(value);
  if (typeof value !== 'object' || value === null || (indent !== '' && indent.length + short.length <= WIDTH - 20))
    return short;
  const inner = `${indent}  `;
  const lines = Array.isArray(value)
    ? value.map((one) => inner + jsonText(one, inner))
    : Object.entries(value).map(([name, one]) => `${inner}${JSON.stringify(name)}: ${jsonText(one, inner)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return lines.length === 0 ? short : `${open}\n${lines.join(',\n')}\n${indent}${close}`;
}

function oneLine(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(oneLine).join(', ')}]`;
  const members = Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${oneLine(one)}`);
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
}

/** Paragraphs of at most `WIDTH` characters a line. */
function wrapped(text: string): string {
  return text
    .split('\n')
    .map((paragraph) => (paragraph.startsWith('|') ? paragraph : broken(paragraph.trim())))
    .join('\n');
}

function broken(paragraph: string): string {
  let line = '';
  const lines: string[] = [];
  for (const word of paragraph.split(' ')) {
    if (line !== '' && line.length + word.length >= WIDTH) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].join('\n');
}
