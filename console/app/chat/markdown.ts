/** Renders an agent's Markdown as elements, without anything that could run, load or post. */
import createSanitizer from 'dompurify';
import { Marked } from 'marked';

/** HTML in it is shown as it is written. */
const renderer = {
  html: ({ text }: { text: string }) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;'),
};
const marked = new Marked({ gfm: true, breaks: true, async: false, renderer });
const sanitizer = createSanitizer(window);

const TAGS =
  'a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i li ol p pre strong table tbody td th thead tr ul'.split(' ');

sanitizer.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return;
  node.setAttribute('rel', 'noopener noreferrer');
  node.setAttribute('target', '_blank');
});

/** What a person reads of `text`, as a fragment of the document. Links lead to the web and nowhere else. */
export function markdown(text: string): DocumentFragment {
  return sanitizer.sanitize(marked.parse(text, { async: false }), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['href', 'start', 'align'],
    ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}
