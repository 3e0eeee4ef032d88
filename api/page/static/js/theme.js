// Sets the chosen theme before the first paint. Without a choice the system's holds.
{
  const chosen = localStorage.getItem("foldex.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
