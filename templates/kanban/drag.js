/** Cards that are dragged by mouse. Where there is none, the card's dialog and the keyboard move it. */

/**
 * Listens on the element that holds the columns. `drop(card, column, before)` is called when a card was put down,
 * `before` null at the end of a column; `ended` when it was put down elsewhere.
 */
export function startDragging(holder, { drop, ended }) {
  const state = { active: false };
  let dragged = null;
  let target = null;

  /** Where a card that is let go here would stand. */
  function placeAt(event) {
    const column = event.target.closest('[data-column]');
    if (!column) return null;
    const below = [...column.querySelectorAll('[data-card]')].find((card) => {
      const { top, height } = card.getBoundingClientRect();
      return card !== dragged && event.clientY < top + height / 2;
    });
    return { column, below: below ?? null };
  }

  function mark(place) {
    for (const marked of holder.querySelectorAll('.target, .below')) marked.classList.remove('target', 'below');
    place?.column.classList.add('target');
    place?.below?.classList.add('below');
    target = place;
  }

  holder.addEventListener('dragstart', (event) => {
    dragged = event.target.closest?.('[data-card]');
    if (!dragged) return;
    state.active = true;
    event.dataTransfer.effectAllowed = 'move';
    event.dataTransfer.setData('text/plain', dragged.firstElementChild.textContent);
    dragged.classList.add('dragged');
  });
  holder.addEventListener('dragover', (event) => {
    if (!dragged) return;
    event.preventDefault();
    mark(placeAt(event));
  });
  holder.addEventListener('dragleave', (event) => {
    if (!holder.contains(event.relatedTarget)) mark(null);
  });
  holder.addEventListener('drop', (event) => {
    if (!dragged || !target) return;
    event.preventDefault();
    const card = Number(dragged.dataset.card);
    const { column, below } = target;
    end();
    drop(card, Number(column.dataset.column), below ? Number(below.dataset.card) : null);
  });
  document.addEventListener('dragend', () => {
    if (!dragged) return;
    end();
    ended();
  });

  function end() {
    dragged.classList.remove('dragged');
    dragged = null;
    state.active = false;
    mark(null);
  }
  return state;
}
