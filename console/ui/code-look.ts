/** Gives editors of code the colours of the console, in light and dark. */
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'light-dark(#8b2c8f, #d9a0f0)' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'light-dark(#1a6b3c, #8fd6a4)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'light-dark(#9a4a00, #f0b070)' },
  { tag: [tags.comment, tags.meta], color: 'var(--faint)', fontStyle: 'italic' },
  { tag: [tags.propertyName, tags.attributeName], color: 'light-dark(#1f5b99, #8fc1f5)' },
  { tag: [tags.tagName, tags.typeName, tags.className], color: 'light-dark(#a3331c, #ff9f86)' },
  { tag: [tags.heading, tags.strong], fontWeight: '650' },
  { tag: tags.emphasis, fontStyle: 'italic' },
  { tag: tags.link, textDecoration: 'underline' },
]);

const look = EditorView.theme({
  '&': { height: '100%', color: 'var(--ink)', backgroundColor: 'var(--card)', fontSize: '0.86rem' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.6' },
  '.cm-content': { caretColor: 'var(--ink)' },
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 25%, transparent)',
  },
  '.cm-gutters': { backgroundColor: 'var(--card)', color: 'var(--faint)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--ink) 5%, transparent)' },
  '.cm-panels, .cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--ink)',
    border: '1px solid var(--line)',
  },
  '.cm-panels': { border: 'none' },
  '.cm-textfield, .cm-button': {
    backgroundColor: 'var(--card)',
    backgroundImage: 'none',
    color: 'var(--ink)',
    border: '1px solid var(--edge)',
    borderRadius: '6px',
  },
  '.cm-matchingBracket': { backgroundColor: 'color-mix(in srgb, var(--accent) 20%, transparent) !important' },
});

export const codeLook: Extension = [syntaxHighlighting(colours), look];
