/** The documents of the gateway, as they came with it: a list of them, and one of them. */
import { useEffect, useRef } from 'preact/hooks';
import { requestOf } from '../../protocol/http/client.ts';
import { type Address, hrefOf } from '../address.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { Empty, Loading, Problem } from '../ui/parts.tsx';
import { documentOf } from './document.ts';
import { DOCUMENTS, documentHref } from './help-pages.ts';

/** The address names the document and, in its query, a `part` of it. */
export function DocsView({ address: { parts, query } }: { address: Address }) {
  const name = parts[1] ?? 'console';
  const part = query.get('part');
  const load = async (signal: AbortSignal) => {
    const file = `${name}.md`;
    return await (await gateway.open(requestOf('GET /svc/_docs/:file', { params: { file } }, { signal }))).text();
  };
  const { value: text, error, reload } = usePolled(load, `document ${name}`, 0);
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    if (text !== undefined) place.current?.replaceChildren(documentOf(text, name));
  }, [text]);
  useEffect(() => {
    if (text === undefined) return;
    const heading = part === null ? null : document.getElementById(`doc-${part}`);
    if (heading === null) return scrollTo(0, 0);
    heading.scrollIntoView();
    heading.focus({ preventScroll: true });
  }, [text, part]);
  if (error?.status === 404)
    return (
      <Empty title="There is no such document" whole>
        <p>
          <a href={hrefOf(['docs', 'console'])}>The console</a>
        </p>
      </Empty>
    );
  return (
    <div class="docs">
      <nav aria-label="Documents">
        {DOCUMENTS.map(([id, title]) => (
          <a key={id} href={documentHref([id])} aria-current={id === name ? 'page' : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {text === undefined && (error ? <Problem error={error} retry={reload} /> : <Loading />)}
      <article ref={place} class="doc" />
    </div>
  );
}
