/** Loads the code of a view when the view is first shown. */
import type { ComponentType, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { requestOf } from '../../protocol/http/client.ts';
import { BACK, gateway, unreachable } from '../gateway.ts';
import { Button, Loading, Problem } from '../ui/parts.tsx';

const RETRY_MS = 3000;
/** The file that a view's code is in; its name is another one in every build. */
const PART = /part-[A-Z0-9]{8}\.js/;
const UPGRADED = 'The gateway was upgraded since this page was opened, and this view has other code now.';
const UNREAD = 'This view could not be loaded. Trying again…';

/** The component that `load` resolves to; asked for again while the gateway does not answer. */
export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | undefined;
  return function Lazy(props: Props): JSX.Element {
    const [View, setView] = useState(() => loaded);
    const [problem, setProblem] = useState<Error>();
    const [isOld, setOld] = useState(false);
    useEffect(() => {
      if (loaded) return;
      let isGone = false;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const read = async (): Promise<void> => {
        clearTimeout(timer);
        try {
          loaded = await load();
          if (!isGone) setView(() => loaded);
        } catch {
          const why = await reasonOf(load);
          if (isGone) return;
          setProblem(why);
          if (why.message === UPGRADED) setOld(true);
          else timer = setTimeout(read, RETRY_MS);
        }
      };
      void read();
      addEventListener(BACK, read);
      return () => {
        isGone = true;
        clearTimeout(timer);
        removeEventListener(BACK, read);
      };
    }, []);
    if (View) return <View {...props} />;
    if (!isOld) return problem ? <Problem error={problem} /> : <Loading />;
    return (
      <div class="stack">
        <Problem error={problem} />
        <p>
          <Button kind="primary" onClick={() => location.reload()}>
            Reload the page
          </Button>
        </p>
      </div>
    );
  };
}

/** Why the code was not loaded: browsers do not tell. Only a file that is gone is of another version. */
async function reasonOf(load: () => unknown): Promise<Error> {
  const [part] = PART.exec(String(load)) ?? [];
  try {
    const asked =
      part === undefined ? requestOf('GET /svc/_session') : requestOf('GET /svc/_console/:part', { params: { part } });
    await gateway.open({ ...asked, method: 'HEAD' });
    return new Error(UNREAD);
  } catch (error) {
    const { status } = error as { status?: number };
    if (status === 404 && part !== undefined) return new Error(UPGRADED);
    return status === 0 ? unreachable() : new Error(UNREAD);
  }
}
