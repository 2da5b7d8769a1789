/** Addresses of the console's views: the fragment after `#`, which no server and no app's page sees. */
import { useEffect, useState } from 'preact/hooks';

/** `#/apps/todos/data?table=items` has the parts `['apps', 'todos', 'data']` and the query. */
export type Address = { parts: readonly string[]; query: URLSearchParams };

function readAddress(hash: string = location.hash): Address {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return { parts: path.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

/** An address that somebody typed may be malformed; it then names nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The link to a view: `hrefOf(['apps', id, 'data'], { table })`. Members that are undefined or empty are left out. */
export function hrefOf(parts: readonly string[], query: Record<string, string | number | undefined> = {}): string {
  const members = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(members.map(([name, value]) => [name, String(value)])).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${search && `?${search}`}`;
}

/** Shows another view. With `replace` the browser's Back does not return to the one that is shown now. */
export function go(href: string, { replace = false } = {}): void {
  if (!replace) {
    location.hash = href;
    return;
  }
  history.replaceState(null, '', href);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/** The address that is shown; draws again when it changes. */
export function useAddress(): Address {
  const [address, setAddress] = useState(readAddress);
  useEffect(() => {
    const changed = () => setAddress(readAddress());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return address;
}
