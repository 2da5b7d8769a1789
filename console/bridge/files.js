/**
 * Has the browser load files of the app that a page names by their plain addresses, `_blobs/<sha256>`: those are refused, because a
 * browser sends no page key with what it loads by itself. `signed(address)` is the address that it may load.
 */
const PLAIN = /\/_blobs\/[0-9a-f]{64}$/;

export function watchFiles(signed) {
  const isPlain = (address) => {
    const { origin, pathname, search } = new URL(address, location.href);
    return origin === location.origin && search === '' && PLAIN.test(pathname);
  };

  addEventListener(
    'error',
    (event) => {
      const { target } = event;
      const name = target.localName === 'object' ? 'data' : 'src';
      if (!(target instanceof Element) || !target[name] || !isPlain(target[name])) return;
      // Nothing is wrong with it yet.
      event.stopImmediatePropagation();
      target[name] = signed(target[name]);
      if (target.localName === 'source') target.parentElement.load?.();
    },
    true,
  );

  for (const type of ['click', 'auxclick', 'contextmenu']) {
    addEventListener(
      type,
      ({ target }) => {
        const link = target instanceof Element ? target.closest('a[href]') : null;
        if (link !== null && isPlain(link.href)) link.href = signed(link.href);
      },
      true,
    );
  }
}
