/** Loads the code of a view when the view is first shown. */
import type { ComponentType, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Loading, Problem } from '../ui/parts.tsx';

/** The component that `load` resolves to; asked for again when a new version of the gateway has other files. */
export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | undefined;
  return function Lazy(props: Props): JSX.Element {
    const [View, setView] = useState(() => loaded);
    const [error, setError] = useState<Error>();
    useEffect(() => {
      if (loaded) return;
      load().then(
        (component) => {
          loaded = component;
          setView(() => component);
        },
        () =>
          setError(new Error('This view could not be loaded. The gateway may have been upgraded: reload the page.')),
      );
    }, []);
    if (error) return <Problem error={error} retry={() => location.reload()} />;
    return View ? <View {...props} /> : <Loading />;
  };
}
