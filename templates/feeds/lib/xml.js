/**
 * A small reader of XML for feeds: elements, attributes, text and CDATA. It walks through the text once, looks nothing up
 * outside of it, and defines no entities. What is not well-formed is an error; namespaces are left in the names.
 */
import { decode } from './entities.js';

const MAX_DEPTH = 64;
const MAX_ELEMENTS = 100_000;
const NAME = /[A-Za-z_:][\w:.-]*/y;
const ATTRIBUTE = /\s*([A-Za-z_:][\w:.-]*)\s*=\s*(?:"([^"]*)"|'([^']*)')/y;
const TAG_END = /\s*(\/?)>/y;

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** The element at the root: `{ name, attributes, children, text }`, `text` without that of its children. */
export function parseXml(text) {
  const top = { name: '', attributes: {}, children: [], text: '' };
  const open = [top];
  let at = 0;
  let elements = 0;

  const skipTo = (end, what) => {
    const found = text.indexOf(end, at);
    if (found < 0) throw new Error(`${what} has no end`);
    at = found + end.length;
    return found;
  };

  while (at < text.length) {
    const parent = open.at(-1);
    const tag = text.indexOf('<', at);
    parent.text += decode(text.slice(at, tag < 0 ? text.length : tag));
    if (tag < 0) break;
    at = tag;
    if (text.startsWith('<!--', at)) skipTo('-->', 'a comment');
    else if (text.startsWith('<![CDATA[', at)) {
      const from = at + '<![CDATA['.length;
      parent.text += text.slice(from, skipTo(']]>', 'a CDATA section'));
    } else if (text.startsWith('<?', at)) skipTo('?>', 'an instruction');
    else if (text.startsWith('<!', at)) at = endOfDoctype(text, at);
    else if (text[at + 1] === '/') {
      const name = matchAt(NAME, text, at + 2)?.[0];
      if (open.length === 1 || name !== parent.name) throw new Error(`</${name ?? ''}> closes nothing`);
      open.pop();
      skipTo('>', `</${name}`);
    } else {
      const { element, end, empty } = readTag(text, at);
      if (++elements > MAX_ELEMENTS || open.length > MAX_DEPTH) throw new Error('it is too large or nested too deeply');
      parent.children.push(element);
      if (!empty) open.push(element);
      at = end;
    }
  }
  if (open.length > 1) throw new Error(`<${open.at(-1).name}> has no end`);
  if (top.children.length !== 1) throw new Error('it has no root element');
  return top.children[0];
}

function readTag(text, start) {
  const name = matchAt(NAME, text, start + 1)?.[0];
  if (name === undefined) throw new Error('a “<” begins no tag');
  const attributes = {};
  let at = start + 1 + name.length;
  for (let found = matchAt(ATTRIBUTE, text, at); found; found = matchAt(ATTRIBUTE, text, at)) {
    attributes[found[1]] = decode(found[2] ?? found[3]);
    at = ATTRIBUTE.lastIndex;
  }
  const end = matchAt(TAG_END, text, at);
  if (!end) throw new Error(`the tag <${name}> is malformed`);
  return { element: { name, attributes, children: [], text: '' }, end: TAG_END.lastIndex, empty: end[1] === '/' };
}

/** Behind a doctype, whose declarations are not read. */
function endOfDoctype(text, start) {
  const subset = text.indexOf('[', start);
  const end = text.indexOf('>', start);
  if (end < 0) throw new Error('a declaration has no end');
  if (subset < 0 || subset > end) return end + 1;
  const close = text.indexOf(']', subset);
  const after = close < 0 ? -1 : text.indexOf('>', close);
  if (after < 0) throw new Error('a declaration has no end');
  return after + 1;
}
