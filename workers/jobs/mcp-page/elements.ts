/** Finds the elements of a page that load something, as a browser parses it. */
import {
  type DefaultTreeAdapterMap,
  type DefaultTreeAdapterTypes,
  defaultTreeAdapter,
  html as names,
  parse,
  type Token,
  type TreeAdapter,
} from 'parse5';

/** Offsets in the page. `end` and `contentEnd` are those of the start tag for an element without an end tag. */
export type PageElement = {
  name: string;
  isHtml: boolean;
  attributes: ReadonlyMap<string, string>;
  /** Where each attribute stands, with its name. */
  places: Readonly<Record<string, { startOffset: number; endOffset: number }>>;
  start: number;
  contentStart: number;
  contentEnd: number;
  end: number;
  isClosed: boolean;
};

const LOADING = new Set(
  'audio base embed frame iframe image img input link meta object script source style track use video feimage'.split(
    ' ',
  ),
);
/** Elements whose text is looked at too. */
const TEXTS = new Set(['script', 'style']);
const BYTE_ORDER_MARK = '\uFEFF';
const NO_LOCATION = { startLine: 0, startCol: 0, startOffset: 0, endLine: 0, endCol: 0, endOffset: 0 };

type Element = DefaultTreeAdapterTypes.Element;

/** In the order of their start tags. Those of a page that `headOffset` takes: others may never end. */
export function elementsOf(html: string): PageElement[] {
  const from = html.startsWith(BYTE_ORDER_MARK) ? 1 : 0;
  const found: PageElement[] = [];
  const open = new Map<Element, PageElement>();
  const isLoading = ({ nodeName, attrs }: Element): boolean =>
    LOADING.has(nodeName.toLowerCase()) || attrs.some(({ name }) => name === 'style');

  // Nodes are not linked, so that memory does not hold the tree.
  const adapter: TreeAdapter<DefaultTreeAdapterMap> = {
    ...defaultTreeAdapter,
    setNodeSourceCodeLocation(node: DefaultTreeAdapterTypes.Node | undefined, location) {
      // Of text there is no node, because none is linked.
      if (!location || !node || !('attrs' in node) || !isLoading(node)) return;
      const { startOffset, endOffset, attrs: places = {} } = location as Token.LocationWithAttributes;
      const element: PageElement = {
        name: node.nodeName.toLowerCase(),
        isHtml: node.namespaceURI === names.NS.HTML,
        attributes: new Map(node.attrs.map(({ prefix, name, value }) => [prefix ? `${prefix}:${name}` : name, value])),
        places: Object.fromEntries(
          Object.entries(places).map(([name, place]) => [
            name,
            { startOffset: from + place.startOffset, endOffset: from + place.endOffset },
          ]),
        ),
        start: from + startOffset,
        contentStart: from + endOffset,
        contentEnd: from + endOffset,
        end: from + endOffset,
        isClosed: false,
      };
      found.push(element);
      if (TEXTS.has(element.name)) open.set(node, element);
    },
    getNodeSourceCodeLocation: (node) => (open.has(node as Element) ? NO_LOCATION : null),
    updateNodeSourceCodeLocation(node, { endTag }) {
      const element = open.get(node as Element);
      open.delete(node as Element);
      if (!element || !endTag) return;
      element.contentEnd = from + endTag.startOffset;
      element.end = from + endTag.endOffset;
      element.isClosed = true;
    },
    appendChild() {},
    insertBefore() {},
    insertText() {},
    insertTextBefore() {},
  };
  parse(html.slice(from), { treeAdapter: adapter, sourceCodeLocationInfo: true });
  return found;
}
