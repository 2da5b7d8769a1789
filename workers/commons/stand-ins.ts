/** Takes the place of classes of Node in our own code, which the build puts here: theirs belong to another realm. */
import { leave } from './leaving.ts';

class RealmDOMException extends Error {
  constructor(message: string, name: string) {
    super(message);
    this.name = name;
  }
}

class RealmAbortController {
  constructor() {
    leave('globals', 'ctx.signal');
  }
}

export { RealmAbortController as AbortController, RealmDOMException as DOMException };
