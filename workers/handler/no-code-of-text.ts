/**
 * Refuses to make code of text in this thread: `eval` and the constructors of functions, which are ways round the module loader. Loaded
 * before everything else, so that our libraries see it too. V8 has a flag for it; but with any flag of V8, Node compiles all of its own
 * modules anew in each process and thread.
 */
const { defineProperty, getPrototypeOf, setPrototypeOf } = Object;

/** A function of that name, which takes one text, and can be called with `new`. */
function refusing(name: string): object {
  function refused(_text: unknown): never {
    throw new EvalError('Code generation from strings disallowed for this context');
  }
  return defineProperty(refused, 'name', { value: name });
}

/** Takes the place of the constructor of functions like this one. */
function close(example: object, parent: object): object {
  const prototype = getPrototypeOf(example) as object;
  const closed = refusing((prototype.constructor as { name: string }).name);
  // So that functions are instances of it as before.
  defineProperty(closed, 'prototype', { value: prototype, writable: false });
  setPrototypeOf(closed, parent);
  defineProperty(prototype, 'constructor', { value: closed });
  return closed;
}

const ofAll = close(() => {}, Function.prototype);
close(async () => {}, ofAll);
close(function* () {}, ofAll);
close(async function* () {}, ofAll);
defineProperty(globalThis, 'Function', { value: ofAll });
defineProperty(globalThis, 'eval', { value: refusing('eval') });
