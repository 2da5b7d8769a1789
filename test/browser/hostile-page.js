/* Tries every way in which a page can make a browser send a request; the file is one function, which a test runs in a page. */
/** `targets` are `{ url, method?, body? }`; resolves with what the page learned of the answers. */
async (targets, waitMs) => {
  const learned = [];
  // An app's page has a page key of its own.
  const send = globalThis.svc?.fetch ?? fetch;
  const learn = (how, what) => learned.push(`${how}: ${what}`);
  const limited = (work) => Promise.race([work, new Promise((resolve) => setTimeout(resolve, waitMs))]).catch(() => {});
  const settled = (element) =>
    new Promise((resolve) => {
      element.addEventListener('load', () => resolve());
      element.addEventListener('error', () => resolve());
      document.body.append(element);
    });
  const tries = targets.map(async ({ url, method = 'GET', body }) => {
    for (const mode of ['cors', 'no-cors']) {
      const simple = mode === 'cors' || method === 'GET' || method === 'POST';
      if (!simple) continue;
      const init = { method, mode, credentials: 'include', ...(body === undefined ? {} : { body }) };
      await limited(
        send(url, init).then(async (answer) => {
          const text = await answer.text();
          if (text !== '') learn(`fetch ${mode} ${method} ${url}`, text);
        }),
      );
    }
    if (method === 'POST') {
      navigator.sendBeacon(url, body);
      const form = Object.assign(document.createElement('form'), { action: url, method, enctype: 'text/plain' });
      const frame = Object.assign(document.createElement('iframe'), { name: `f${Math.random()}` });
      form.target = frame.name;
      const field = Object.assign(document.createElement('input'), { name: (body ?? '').slice(0, -1), value: '}' });
      form.append(field);
      document.body.append(frame, form);
      form.submit();
      return;
    }
    if (method !== 'GET') return;
    const image = Object.assign(new Image(), { src: url });
    const script = Object.assign(document.createElement('script'), { src: url });
    await limited(Promise.all([settled(image), settled(script)]));
    const frame = Object.assign(document.createElement('iframe'), { src: url });
    await limited(settled(frame));
    try {
      const text = frame.contentDocument?.body?.textContent ?? '';
      if (text.includes('secret')) learn(`iframe ${url}`, text);
    } catch {
      // Another origin's document cannot be looked into.
    }
    const opened = window.open(url);
    await new Promise((resolve) => setTimeout(resolve, 300));
    try {
      const text = opened?.document?.body?.textContent ?? '';
      if (text.includes('secret')) learn(`window ${url}`, text);
    } catch {
      // Likewise.
    }
    opened?.close();
    await limited(
      new Promise((resolve) => {
        const source = new EventSource(url, { withCredentials: true });
        source.onmessage = ({ data }) => learn(`events ${url}`, data);
        source.onopen = () => learn(`events ${url}`, 'open');
        source.onerror = () => {
          source.close();
          resolve();
        };
      }),
    );
    await limited(
      new Promise((resolve) => {
        const socket = new WebSocket(url.replace('http', 'ws'));
        socket.onopen = () => learn(`socket ${url}`, 'open');
        socket.onclose = () => resolve();
      }),
    );
  });
  await Promise.all(tries);
  return learned;
};
