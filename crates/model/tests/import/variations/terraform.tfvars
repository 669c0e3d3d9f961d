site    = "glade"
short   = true
network = {}
workers = [
  { host = "elm", big = true },
  { host = "ash", memory = "much" },
  { host = "ash", enabled = false },
]
