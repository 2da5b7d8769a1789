/** Fits a page into the frame of its host: size, look, fonts, links, history (specification, "MCP Apps"). */
import type { Host } from './app-host.ts';

type Dimensions = { height?: number; maxHeight?: number };
export type HostContext = {
  theme?: 'light' | 'dark';
  styles?: { variables?: Record<string, string | undefined>; css?: { fonts?: string } };
  containerDimensions?: Dimensions;
};

/**
 * A page that fills its window would fill whatever height it asks for. What it measures in parts of the window's height
 * (`workers/jobs/mcp-page/styles.ts`) is measured in a window of 600 px.
 */
const FLEXIBLE = ':root { --svc-vh: 6px } html, body { height: auto !important; min-height: 0 !important }';

/** Takes what the host says of the look; `theme` gets light or dark. */
export function createLook(theme: (name: string) => void): (context: HostContext) => void {
  const { documentElement: root } = document;
  const fonts = document.createElement('style');
  const flexible = document.createElement('style');
  flexible.textContent = FLEXIBLE;
  return ({ theme: name, styles, containerDimensions: dimensions }) => {
    if (name === 'light' || name === 'dark') {
      root.style.colorScheme = name;
      theme(name);
    }
    for (const [variable, value] of Object.entries(styles?.variables ?? {}))
      if (variable.startsWith('--') && typeof value === 'string') root.style.setProperty(variable, value);
    if (typeof styles?.css?.fonts === 'string') {
      fonts.textContent = styles.css.fonts;
      document.head.append(fonts);
    }
    if (dimensions?.height !== undefined) flexible.remove();
    else document.head.append(flexible);
  };
}

/** Pixels, above and below together. */
const AROUND_DIALOG = 48;
/** How often in a row the page may grow because its frame did. */
const MOST_FOLLOWED = 6;

/** Tells the host how high the page is, whenever that changes. */
export function tellSize(host: Host): void {
  const { documentElement: root } = document;
  let asked = 0;
  let framed = innerHeight;
  let followed = 0;
  const measure = (): void => {
    // A dialog is as high as its frame lets it be.
    const dialogs = [...document.querySelectorAll('dialog[open]')].map(
      ({ scrollHeight }) => scrollHeight + AROUND_DIALOG,
    );
    const height = Math.ceil(Math.max(root.getBoundingClientRect().height, ...dialogs));
    // What is as high as its frame and more would grow without end.
    followed = innerHeight === framed ? 0 : followed + 1;
    framed = innerHeight;
    if (height === asked || height === 0 || (height > asked && followed > MOST_FOLLOWED)) return;
    asked = height;
    host.notify('ui/notifications/size-changed', { height });
  };
  const sizes = new ResizeObserver(measure);
  sizes.observe(root);
  const opening = { attributes: true, attributeFilter: ['open'], subtree: true };
  // Each tells its size at once, and when it closes.
  new MutationObserver((opened) => {
    for (const { target } of opened) if (target instanceof HTMLDialogElement) sizes.observe(target);
  }).observe(document, opening);
  measure();
}

/**
 * Loads the fonts of the page's own style sheets by script: the policy of hosts lets no font be loaded, not even one that stands in
 * the page, but does not ask where the bytes of a script come from.
 */
export function loadFonts(): void {
  for (const sheet of document.styleSheets) {
    for (const rule of rulesOf(sheet)) {
      const [, data] = /url\("?data:[^,"]*;base64,([^")]+)"?\)/.exec(rule.style.getPropertyValue('src')) ?? [];
      if (data === undefined) continue;
      const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
      const named = (property: string) => rule.style.getPropertyValue(property);
      const family = named('font-family').replace(/^["']|["']$/g, '');
      const descriptors = {
        style: named('font-style') || 'normal',
        weight: named('font-weight') || 'normal',
        ...(named('unicode-range') && { unicodeRange: named('unicode-range') }),
      };
      new FontFace(family, bytes, descriptors).load().then(
        (font) => document.fonts.add(font),
        (error: unknown) => console.warn(`The font "${family}" cannot be read.`, error),
      );
    }
  }
}

function rulesOf(sheet: CSSStyleSheet): CSSFontFaceRule[] {
  return [...sheet.cssRules].flatMap((rule) => {
    if (rule instanceof CSSFontFaceRule) return [rule];
    return 'cssRules' in rule ? rulesOf(rule as unknown as CSSStyleSheet) : [];
  });
}

/** What a link leads to opens outside, by the host: in the frame there is only this page. `home` is where the app's own pages are. */
export function openLinksOutside(host: Host, home: string | undefined): void {
  const open = (address: string): void => {
    const base = home ?? 'http://page.invalid/';
    if (!URL.canParse(address, base)) return;
    const url = new URL(address, base);
    if (url.hostname !== 'page.invalid') host.request('ui/open-link', { url: url.href }).catch(console.warn);
  };
  addEventListener('click', (event) => {
    const link = event.composedPath().find((element) => element instanceof HTMLAnchorElement && element.href !== '');
    if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented) return;
    const address = link.getAttribute('href') ?? '';
    if (/^(?:javascript|data|blob):/i.test(address)) return;
    event.preventDefault();
    if (!address.startsWith('#')) open(address);
    else {
      location.hash = address;
      document.getElementById(decodeURIComponent(address.slice(1)))?.scrollIntoView();
    }
  });
  window.open = (address) => {
    open(String(address ?? ''));
    return null;
  };
}

/** The address of a page in a frame may have no path of its own: of what a page puts there, the fragment is kept. */
export function keepFragments(): void {
  for (const method of ['pushState', 'replaceState'] as const) {
    const own = history[method].bind(history);
    history[method] = (state, unused, address) => {
      try {
        own(state, unused, address);
      } catch {
        const [, fragment] = /(#.*)$/s.exec(String(address ?? '')) ?? [];
        own(state, unused, `${location.href.split('#')[0]}${fragment ?? ''}`);
      }
    };
  }
}

/** Calls back when the page comes into sight or goes out of it: of the window, and of its place in the host. */
export function watchSight(changed: (isSeen: boolean) => void): void {
  let isInView = true;
  const look = (): void => changed(isInView && document.visibilityState === 'visible');
  document.addEventListener('visibilitychange', look);
  new IntersectionObserver((entries) => {
    isInView = entries.at(-1)?.isIntersecting !== false;
    look();
  }).observe(document.documentElement);
}
