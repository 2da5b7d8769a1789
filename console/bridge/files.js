/**
 * Has the browser load files of the app that a page names by their plain addresses, `_blobs/<sha256>`: those are refused, because a
 * browser sends no page key with what it loads by itself. `signed(address)` is the address that it may load.
 */
const PLAIN = /\/_blobs\/[0-9a-f]{64}$/;

export function watchFiles(signed) {
  /** The signed address of one that is plain; undefined for others, and where there is no page key. */
  const better = (address) => {
    if (!URL.canParse(address, location.href)) return undefined;
    const { origin, pathname, search } = new URL(address, location.href);
    const isPlain = origin === location.origin && search === '' && PLAIN.test(pathname);
    const other = isPlain ? signed(address) : address;
    return other === address ? undefined : other;
  };

  addEventListener(
    'error',
    (event) => {
      const { target } = event;
      const name = target.localName === 'object' ? 'data' : 'src';
      const address = target instanceof Element && target[name] ? better(target[name]) : undefined;
      if (address === undefined) return;
      // Nothing is wrong with it yet.
      event.stopImmediatePropagation();
      target[name] = address;
      if (target.localName === 'source') target.parentElement.load?.();
    },
    true,
  );

  for (const type of ['click', 'auxclick', 'contextmenu']) {
    addEventListener(
      type,
      ({ target }) => {
        const link = target instanceof Element ? target.closest('a[href]') : null;
        const address = link === null ? undefined : better(link.href);
        if (address !== undefined) link.href = address;
      },
      true,
    );
  }
}
