// Sends the form that adds a gateway, and shows what is wrong with it.
const form = document.querySelector('form');
const [button, problem] = [form.querySelector('button'), form.querySelector('[role=alert]')];

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  button.disabled = true;
  problem.textContent = '';
  problem.textContent = (await window.desktop.addGateway(Object.fromEntries(new FormData(form)))) ?? '';
  button.disabled = false;
});
