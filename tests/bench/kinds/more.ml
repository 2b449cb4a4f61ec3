(* The programs of more.rly in OCaml.  more NAME N  prints the result and the least time in ms. *)
let next s = (s * 1103 + 12345) mod 1000003
let rec each f l = match l with x :: r -> let y = f x in y :: each f r | [] -> []
let rec fold f z l = match l with x :: r -> fold f (f z x) r | [] -> z
let rec range (a : int) b = if a = b then [] else a :: range (a + 1) b
let sum l = fold (fun a x -> (a * 31 + x) mod 1000003) 7 l
let rec random n s = if n = 0 then [] else let t = next s in t :: random (n - 1) t
let rec halve l = match l with a :: b :: r -> let p, q = halve r in (a :: p, b :: q) | _ -> (l, [])
let rec merge (a : int list) b = match a, b with
  | [], _ -> b | _, [] -> a
  | x :: r, y :: s -> if x < y then x :: merge r b else if x = y then x :: merge r s else y :: merge a s
let rec msort l = match l with _ :: _ :: _ -> let p, q = halve l in let a = msort p in merge a (msort q) | _ -> l
let union n = sum (merge (msort (random n 1)) (msort (random n 2)))

type op = Push of int | AddI | MulI | Dup | Swap | Dec | JumpNot of int | Jump of int | Halt
let rec nth c i = if i = 0 then c else match c with _ :: r -> nth r (i - 1) | [] -> []
let rec vm p all s = match p, s with
  | Push k :: r, _ -> vm r all (k :: s)
  | AddI :: r, a :: b :: t -> vm r all ((a + b) mod 10007 :: t)
  | MulI :: r, a :: b :: t -> vm r all (a * b mod 10007 :: t)
  | Dup :: r, a :: t -> vm r all (a :: a :: t)
  | Swap :: r, a :: b :: t -> vm r all (b :: a :: t)
  | Dec :: r, a :: t -> vm r all ((a - 1) :: t)
  | JumpNot k :: r, a :: _ -> if a = 0 then vm (nth all k) all s else vm r all s
  | Jump k :: _, _ -> vm (nth all k) all s
  | _, _ :: b :: _ -> b
  | _ -> -1
let machine n = let p = [ Push 1; Push n; JumpNot 10; Swap; Push 3; MulI; Push 1; AddI; Swap; Dec; JumpNot 12; Jump 2; Halt ] in vm p p []

type queue = Queue of int list * int list
let rec turn l acc = match l with x :: r -> turn r (x :: acc) | [] -> acc
let pushq x (Queue (f, b)) = Queue (f, x :: b)
let popq q = match q with
  | Queue (x :: f, b) -> Some (x, Queue (f, b))
  | Queue ([], b) -> (match turn b [] with x :: f -> Some (x, Queue (f, [])) | [] -> None)
let rec serve i q acc = if i = 0 then acc else match popq q with None -> acc | Some (x, r) ->
  serve (i - 1) (pushq ((x * 7 + i) mod 1009) (pushq x (if i mod 2 = 0 then match popq r with Some (_, t) -> t | None -> r else r))) ((acc * 31 + x) mod 1000003)
let rounds n = serve n (Queue ([ 1; 2; 3; 4 ], [])) 0

let rec picks l = match l with [] -> [] | x :: r -> (x, r) :: each (fun (y, s) -> (y, x :: s)) (picks r)
let rec orders l acc = match l with [] -> acc mod 1000003 | _ -> fold (fun s (x, r) -> (s + orders r ((acc * 10 + x) mod 1000003)) mod 1000003) 0 (picks l)
let permute n = orders (range 1 (n + 1)) 0

let () =
  let n = int_of_string Sys.argv.(2) in
  let f = List.assoc Sys.argv.(1) [ "union", union; "machine", machine; "rounds", rounds; "permute", permute ] in
  let best = ref infinity and r = ref 0 in
  for _ = 1 to 25 do let t = Unix.gettimeofday () in r := f n; best := min !best (Unix.gettimeofday () -. t) done;
  Printf.printf "%d %.4f\n" !r (!best *. 1e3)
