/**
 * Puts the page bridge into a page and finds its inline scripts, as a browser parses it (specification, "Page bridge" and
 * "Page policy"). Pure.
 */
import { createHash } from 'node:crypto';
import {
  type DefaultTreeAdapterMap,
  type DefaultTreeAdapterTypes,
  defaultTreeAdapter,
  html as names,
  parse,
  type Token,
  type TreeAdapter,
} from 'parse5';
import { SvcError } from '../../../protocol/errors.ts';
import { type BridgeOwner, bridgeTag } from '../../../protocol/http/origins.ts';

/** `scriptHashes` are sources for the page's policy, `'sha256-…'` with their quotes, each once. */
type BridgedPage = { html: string; scriptHashes: string[] };

/**
 * The page with the bridge's tag first in its head. Throws `ARCHIVE_TOO_LARGE` for a page that parses to more elements than
 * it has characters: tags such as `<b>` that are never closed are opened again in every paragraph, without end.
 */
export function bridgePage(html: string, owner: BridgeOwner, path: string): BridgedPage {
  const { headAt, inlineScripts } = scan(html, path);
  const scriptHashes = [...new Set(inlineScripts.map(scriptHash))];
  return { html: html.slice(0, headAt) + bridgeTag(owner) + html.slice(headAt), scriptHashes };
}

/** Where the first thing in the head of a page begins. Throws as `bridgePage` does. */
export function headOffset(html: string, path: string): number {
  return scan(html, path).headAt;
}

function scriptHash(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

type Element = DefaultTreeAdapterTypes.Element;
type Page = { headAt: number; inlineScripts: string[] };

/** The attribute of a script that is not inline. Scripts of other namespaces are not run. */
const SOURCES = new Map<string, string>([
  [names.NS.HTML, 'src'],
  [names.NS.SVG, 'href'],
]);
/** Elements of the smallest page, which needs no tags. */
const IMPLIED_ELEMENTS = 3;
/** The byte order mark that a browser's decoder removes before parsing. */
const BYTE_ORDER_MARK = '\uFEFF';
const NO_LOCATION: Token.ElementLocation = {
  startLine: 0,
  startCol: 0,
  startOffset: 0,
  endLine: 0,
  endCol: 0,
  endOffset: 0,
};

/** Parses without keeping a tree: nodes are not linked, so that memory holds the open elements and the scripts only. */
function scan(html: string, path: string): Page {
  const from = html.startsWith(BYTE_ORDER_MARK) ? 1 : 0;
  const inlineScripts: string[] = [];
  const open = new Map<Element, string>();
  let elements = 0;
  /** After everything that may precede the head. */
  let before = from;
  let headAt: number | null = null;

  const adapter: TreeAdapter<DefaultTreeAdapterMap> = {
    ...defaultTreeAdapter,
    createElement(name, namespace, attributes) {
      if (++elements > html.length + IMPLIED_ELEMENTS) throw endlessPage(path);
      const element = defaultTreeAdapter.createElement(name, namespace, attributes);
      const source = SOURCES.get(namespace);
      if (name === 'script' && source && attributes.every((attribute) => attribute.name !== source))
        open.set(element, '');
      return element;
    },
    insertText(parent, text) {
      const soFar = open.get(parent as Element);
      if (soFar !== undefined) open.set(parent as Element, soFar + text);
    },
    setNodeSourceCodeLocation(node, location) {
      if (headAt !== null) return;
      if (location) before = from + location.endOffset;
      if (node.nodeName === 'head') headAt = location ? before : before + leadingSpace(html.slice(before));
    },
    /** Called where an element ends: only for scripts. */
    getNodeSourceCodeLocation: (node) => (open.has(node as Element) ? NO_LOCATION : null),
    /** A script without its end tag does not run, so it needs no hash. */
    updateNodeSourceCodeLocation(node, { endTag }) {
      const text = open.get(node as Element);
      if (endTag && text) inlineScripts.push(text);
      open.delete(node as Element);
    },
    appendChild() {},
    insertBefore() {},
    insertTextBefore() {},
  };
  parse(html.slice(from), { treeAdapter: adapter, sourceCodeLocationInfo: true });
  return { headAt: headAt ?? html.length, inlineScripts };
}

/** White space before an implied head is not content, so the tag may follow it. */
function leadingSpace(text: string): number {
  return /^[\t\n\f\r ]*/.exec(text)?.[0].length ?? 0;
}

function endlessPage(path: string): SvcError {
  const advice = 'close its <b>, <a> and other formatting tags';
  return new SvcError('ARCHIVE_TOO_LARGE', `A page parses to more elements than it has characters; ${advice}.`, {
    path,
  });
}
